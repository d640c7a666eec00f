package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

// isUp is the last line of a start that went well.
const isUp = "up"

// runCluster is the process of the cluster, the first one of its PID namespace. It says on file 3 what it does, until all is up.
func runCluster(ctx context.Context, dir string) error {
	says := os.NewFile(3, "progress")
	if os.Getpid() != 1 || says == nil {
		return errors.New("serve runs in namespaces of its own, where up starts it")
	}
	log := func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
		fmt.Fprintf(says, format+"\n", args...)
	}
	if err := cluster.Enter(cluster.First, ""); err != nil {
		log("error: %v", err)
		return err
	}
	c := &cluster.Cluster{Files: dir, State: filepath.Join(dir, "state"), Log: log, DiskLib: true}
	if err := startAll(ctx, c); err != nil {
		fmt.Println(c.Explain())
		log("error: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		return err
	}
	log(isUp)
	_ = says.Close()
	<-ctx.Done()
	return nil
}

func startAll(ctx context.Context, c *cluster.Cluster) error {
	if err := c.StartServer(ctx); err != nil {
		return err
	}
	if err := c.StartControllers(ctx); err != nil {
		return err
	}
	for range 2 {
		if _, err := c.Join(ctx); err != nil {
			return err
		}
	}
	return c.Settle(ctx)
}

// printProgress prints what the cluster's process says until all is up.
func printProgress(progress io.Reader) error {
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		line := lines.Text()
		if line == isUp {
			return nil
		}
		if why, failed := strings.CutPrefix(line, "error: "); failed {
			return errors.New(why)
		}
		fmt.Println(line)
	}
	return errors.New("the start was interrupted, or the cluster's process was killed")
}
