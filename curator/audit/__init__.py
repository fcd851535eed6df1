"""Attack the curator from outside: a distinguishing game whose score bounds epsilon from below."""
