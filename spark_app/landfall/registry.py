"""Finding decoders, transforms, formats and stores by name."""
