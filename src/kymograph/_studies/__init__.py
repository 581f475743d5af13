"""What a study is: the interface, its settings, and how one is loaded."""
