"""What is measured, where and when; measuring never changes what is measured."""
