"""``kubectl landfall``: the verbs of a group as a kubectl plug-in.

kubectl runs the program ``kubectl-landfall`` on the ``PATH`` as ``kubectl landfall``. It asks the
API server through kubectl itself, so kubeconfig, contexts and logins are kubectl's.
"""

from landfall_operator.kubectl.plugin import main

__all__ = ["main"]
