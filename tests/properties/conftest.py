from hypothesis import settings

# A busy machine is slow, not wrong: pytest's own time limit is enough.
settings.register_profile("landfall", deadline=None)
settings.load_profile("landfall")
