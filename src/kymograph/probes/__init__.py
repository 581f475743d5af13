"""What is measured, where and when; measuring leaves no trace in what is measured."""
