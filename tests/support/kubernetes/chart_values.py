"""Values that the chart is rendered with in tests."""

from tests.support.kubernetes.helm import REGISTRY, Values

DIGEST = "sha256:" + "0123456789abcdef" * 4
EVERYTHING: Values = {
    "image": {
        "registry": REGISTRY,
        "pullPolicy": "Always",
        "pullSecrets": ["pull"],
        "operator": {"digest": DIGEST},
    },
    "operator": {
        "replicas": 2,
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "podLabels": {"team": "data"},
        "podAnnotations": {"example.com/note": "1"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ],
        "priorityClassName": "system-cluster-critical",
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "drivers": {
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]}
    },
    "pods": {
        "securityContext": {"runAsNonRoot": True},
        "common": {"labels": {"cost": "data"}},
        "driver": {"resources": {"requests": {"cpu": "1"}}},
    },
    "serviceAccount": {"name": "somebody", "annotations": {"example.com/role": "landfall"}},
    "monitoring": {
        "labels": {"release": "prometheus"},
        "serviceMonitor": {"enabled": True},
        "podMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Landfall"}},
    },
}
SCENARIOS: dict[str, Values] = {
    "default": {},
    "some namespaces": {
        "watch": {"namespaces": ["default", "logs"]},
        "rbac": {"aggregate": False},
    },
    "all namespaces": {"watch": {"namespaces": ["*"]}},
    "air-gapped": {"image": {"registry": REGISTRY, "pullSecrets": ["pull"]}},
    "bare": {
        "crds": {"install": False},
        "rbac": {"create": False, "aggregate": False},
        "serviceAccount": {"create": False},
        "operator": {"networkPolicy": {"enabled": False}},
    },
    "everything": EVERYTHING,
    "extras": {
        "image": {"operator": {"tag": 20261127}, "pullSecrets": [{"name": "pull"}, "other"]},
        "commonLabels": {"team": "data"},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-extra"},
            }
        ],
        "uninstall": {"refuseWithGroups": True},
        "operator": {
            "replicas": 3,
            "extraVolumes": [{"name": "certificates", "secret": {"secretName": "proxy"}}],
            "extraVolumeMounts": [{"name": "certificates", "mountPath": "/etc/proxy"}],
        },
        "monitoring": {
            "scrapeTimeout": "10s",
            "serviceMonitor": {
                "enabled": True,
                "relabelings": [{"targetLabel": "cluster", "replacement": "eu"}],
                "metricRelabelings": [{"action": "labeldrop", "regex": "image"}],
            },
            "podMonitor": {
                "enabled": True,
                "relabelings": [{"targetLabel": "cluster", "replacement": "eu"}],
                "metricRelabelings": [{"action": "labeldrop", "regex": "image"}],
            },
        },
    },
}
