// Command network-policies enforces the NetworkPolicies of a cluster on its only node, by iptables and ipset. It is
// kube-router's controller of policies without its router and its proxy of Services, which the node has otherwise.
package main

import (
	"flag"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	config := options.NewKubeRouterConfig()
	flag.StringVar(&config.Kubeconfig, "kubeconfig", "", "file of the kubeconfig")
	flag.StringVar(&config.HostnameOverride, "node", "", "name of the node")
	services := flag.String("services", "", "address range of Services")
	flag.Parse()
	config.EnableIPv4 = true
	config.IPTablesSyncPeriod = 10 * time.Second
	config.ClusterIPCIDRs = []string{*services}
	if err := run(config); err != nil {
		klog.Fatal(err)
	}
}

func run(config *options.KubeRouterConfig) error {
	access, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	objects := informers.NewSharedInformerFactory(client, 0)
	pods := objects.Core().V1().Pods().Informer()
	namespaces := objects.Core().V1().Namespaces().Informer()
	policies := objects.Networking().V1().NetworkPolicies().Informer()
	forever := make(chan struct{})
	objects.Start(forever)
	objects.WaitForCacheSync(forever)

	iptables, ipsets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &sync.Mutex{}, iptables, ipsets)
	if err != nil {
		return err
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler,
		policies: controller.NetworkPolicyEventHandler,
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // the controller waits until somebody reads them
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, forever, &running)
	return nil
}
