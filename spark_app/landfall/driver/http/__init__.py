"""The driver's HTTP servers: status, health and metrics on one port, control on another."""
