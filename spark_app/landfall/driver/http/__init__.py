"""What the driver serves over HTTP: status, health and metrics, and on a port of its own the control requests."""
