"""A real Kubernetes on a bare machine, for development: a control plane, or a cluster of one node.

Nothing comes from an image registry: ``programs`` builds Kubernetes, etcd, CoreDNS and Helm from Go
modules, and Debian packages provide the rest. ``daemons`` starts, finds and kills processes;
``certificates`` and ``access`` authenticate them to each other; ``control_plane`` runs etcd, API
server and controller manager on loopback, without root; ``node`` runs pods; ``cli`` is the command
line of ``dev/cluster``. Everything of a cluster is in one home folder, so any number of clusters
can run side by side. The package uses only the standard library, because it runs before there is a
virtual environment.
"""
