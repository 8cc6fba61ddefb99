"""Objects in a directory, safe against crashes."""
