"""What is stored of a run and how many runs are read back; nothing here needs torch."""
