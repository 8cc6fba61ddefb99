"""What the operator does: watch, reconcile, execute actions, serve metrics. The only part with I/O."""
