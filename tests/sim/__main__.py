"""``python -m tests.sim``: compares the autoscaler to a fixed number of executors and to KEDA."""

from tests.sim.simulation import SCENARIOS, policies, simulate

HEADINGS = ("late s", "executor-s", "changes", "reversals", "peak", "last")

if __name__ == "__main__":
    print(f"{'scenario':18}{'policy':12}" + "".join(f"{heading:>12}" for heading in HEADINGS))
    for scenario_name, scenario in SCENARIOS.items():
        for policy_name, policy in policies(scenario).items():
            o = simulate(scenario, policy)
            numbers = (o.late, o.executor_seconds, o.changes, o.reversals, o.peak, o.last)
            print(f"{scenario_name:18}{policy_name:12}" + "".join(f"{n:>12}" for n in numbers))
