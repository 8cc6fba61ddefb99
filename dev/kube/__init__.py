"""A real Kubernetes on a bare machine, for development: its control plane alone, or a whole cluster of one node.

Nothing comes from an image registry: ``programs`` builds Kubernetes, etcd, CoreDNS and Helm from Go
modules, the rest is Debian's. ``daemons`` starts, finds and ends processes; ``certificates`` and
``access`` let them trust each other; ``control_plane`` is etcd, API server and controller manager
on loopback, without root; ``cli`` is the command line of ``dev/cluster``. Everything of a cluster
lives in a home folder, so that any number of them run side by side. Standard library only, because
all of it runs before there is a virtual environment.
"""
