"""Reading untrusted files: every file that this process did not just write is read through this package."""
