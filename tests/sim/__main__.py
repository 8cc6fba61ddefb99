"""``python -m tests.sim``: how the autoscaler does against a fixed number of executors and KEDA's
formula.
"""

from tests.sim.play import SETTINGS, play, rivals

if __name__ == "__main__":
    print(
        f"{'setting':18}{'policy':12}{'late s':>8}{'executor-s':>12}{'changes':>9}{'turns':>7}{'most':>6}{'last':>6}"
    )
    for name, setting in SETTINGS.items():
        for rival, policy in rivals(setting).items():
            o = play(setting, policy)
            print(
                f"{name:18}{rival:12}{o.late:>8}{o.executor_seconds:>12}{o.changes:>9}{o.turns:>7}{o.most:>6}{o.last:>6}"
            )
