"""Whether the rights of operator and drivers are the least: each one is used, and without it a
small
story comes to nothing.

The stories (``stories``) are played at a real API server with a role that has all of the rights, or
all but one. The API server's audit log tells what was asked with them and what was refused.
``python -m tests.rights`` takes away one right after the other; CI plays each story once and looks
for rights that nothing used.
"""
