"""Keys of everything that Landfall stores, and how they are parsed. Pure."""
