// Command cluster starts a Kubernetes of two nodes on this machine that stays up, and ends it:
//
//	go run ./e2e/cluster up
//	go run ./e2e/cluster down
//
// `make cluster` and `make cluster-down` run it. Package e2e/kubernetes/cluster says what the cluster is. Everything of it runs in
// namespaces of one process, so no port of this machine is taken, and its end is the end of everything. Its files lie in .tools/cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

const (
	folder    = ".tools/cluster"
	failedLog = ".tools/cluster.log" // of a start that failed
)

func main() {
	cluster.HoldNode()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	switch strings.Join(args, " ") {
	case "up":
		return startCluster(ctx, dir)
	case "down":
		return stopCluster(dir)
	case "serve":
		return runCluster(ctx, dir)
	}
	return errors.New("usage: go run ./e2e/cluster up|down, in the root of the repository")
}

// startCluster starts the cluster. A start that fails, or is interrupted, ends what it started.
func startCluster(ctx context.Context, dir string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for namespaces and networks: sudo make cluster")
	}
	if err := cluster.Missing(cluster.NodeTools); err != nil {
		return fmt.Errorf("%w; tools/setup.sh kubernetes installs everything", err)
	}
	if err := checkNoCluster(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			err = errors.New("interrupted: make cluster starts anew")
		} else if os.Rename(filepath.Join(dir, "log"), failedLog) == nil {
			err = fmt.Errorf("%w (more is in %s)", err, failedLog)
		}
		err = errors.Join(err, stopCluster(dir))
	}()
	fmt.Println("preparing Kubernetes and the images")
	if err := cluster.Prepare(ctx, ".", dir, true); err != nil {
		return err
	}
	if err := cluster.PrepareNodes(ctx, ".", dir); err != nil {
		return err
	}
	if err := startProcess(ctx, dir); err != nil {
		return err
	}
	fmt.Printf(`The cluster is up, and stays until make cluster-down. Both nodes share this machine's processors and its disk.
Networks of pods (a runtime class each; the first is that of pods without one): %s.
Storage classes: %s (the default) and %s (500 operations and 60 MB per second).
Next:

  export KUBECONFIG=%s
  kubectl get nodes
  bin/teescope bench run k8s-network --param congestion=reno --env plain=pod,load=pod,nodes=other,runtimeClass=plain-1450,image=%[5]s --env wireguard=pod,load=pod,nodes=other,runtimeClass=wireguard-1450,image=%[5]s
  %s install teescope deploy/helm/teescope --namespace teescope --create-namespace --set hostPID=true
`, networks(), cluster.DiskClass, cluster.LimitedClass, filepath.Join(dir, "state/admin.conf"), cluster.BenchImage, filepath.Join(folder, "helm"))
	return nil
}

func networks() string {
	var names []string
	for _, n := range cluster.Networks {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

// startProcess starts the process of the cluster, and waits until all is up.
func startProcess(ctx context.Context, dir string) error {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	progress, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	cmd := exec.Command("/proc/self/exe", "serve")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{says}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: cluster.Namespaces, Setsid: true}
	err = cmd.Start()
	_ = says.Close()
	if err != nil {
		return fmt.Errorf("start the cluster's process: %w", err)
	}
	if err := recordProcess(dir, cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	if err := connect(ctx, dir, cmd.Process.Pid); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = progress.Close() })()
	return printProgress(progress)
}
