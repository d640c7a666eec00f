// Command components is Kubernetes in one program, for the tests of package kubernetes: the first argument names the
// component, the others are its flags. One program is linked once.
//
// It is a module of its own, which replaces what Kubernetes' own module takes from its source tree. No stage of the
// tests compiles it, because that takes ten minutes; `make e2e-kubernetes` builds it once.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	components := map[string]func() int{
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
		"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	}
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: components COMPONENT [FLAG]...; there are kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kube-proxy")
		os.Exit(4)
	}
	os.Args = os.Args[1:]
	os.Exit(components[os.Args[0]]())
}
