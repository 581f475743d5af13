"""What a person looks at: the live view of a sweep and the report of stored runs; all of it works without torch."""
