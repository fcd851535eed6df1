"""How an older ledger becomes a present one: inside the transaction that opens it, or not at all.

Each file in `versions` is one revision, whose name is the schema version that it leads to. A new
ledger is made from `schema` directly; a test checks that the revisions lead to the same tables.
"""
