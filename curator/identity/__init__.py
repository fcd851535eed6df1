"""Who may knock: the certificate authority, tokens and credentials files."""
