package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The storage classes: a volume of the first, the default, is a folder on the disk of State. One of the second has the limits that
// Constellation's published comparison reports of its volumes on Azure, a Standard SSD of 512 GiB.
const (
	DiskClass    = "disk"
	LimitedClass = "limited-disk"
	provisioner  = "teescope.test/folder"
)

// limits are the parameters of a storage class that limit its volumes, with the names of their files in control groups v1 and of
// their keys in v2's io.max.
var limits = []struct{ param, v1, v2 string }{
	{"readOperationsPerSecond", "blkio.throttle.read_iops_device", "riops"},
	{"writeOperationsPerSecond", "blkio.throttle.write_iops_device", "wiops"},
	{"readBytesPerSecond", "blkio.throttle.read_bps_device", "rbps"},
	{"writeBytesPerSecond", "blkio.throttle.write_bps_device", "wbps"},
}

// provideVolumes makes the storage classes, and provides and removes their volumes until the cluster stops.
func (c *Cluster) provideVolumes(ctx context.Context) error {
	const classes = "/apis/storage.k8s.io/v1/storageclasses"
	if err := errors.Join(
		c.API("POST", classes, map[string]any{"metadata": map[string]any{"name": DiskClass, "annotations": map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			"provisioner": provisioner}, nil),
		c.API("POST", classes, map[string]any{"metadata": map[string]any{"name": LimitedClass}, "provisioner": provisioner,
			"parameters": map[string]string{"readOperationsPerSecond": "500", "writeOperationsPerSecond": "500", "readBytesPerSecond": "60000000", "writeBytesPerSecond": "60000000"}}, nil),
	); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	c.closers = append(c.closers, closer(cancel))
	go func() {
		said := ""
		for ctx.Err() == nil {
			if err := c.tendVolumes(); err != nil && ctx.Err() == nil && err.Error() != said {
				said = err.Error() // each once
				c.Log("volumes: %s", said)
			}
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// tendVolumes makes the volumes that claims wait for, removes those that were released, and limits the pods of those with limits.
func (c *Cluster) tendVolumes() error {
	var classes storagev1.StorageClassList
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := errors.Join(c.API("GET", "/apis/storage.k8s.io/v1/storageclasses", nil, &classes),
		c.API("GET", "/api/v1/persistentvolumeclaims", nil, &claims), c.API("GET", "/api/v1/persistentvolumes", nil, &volumes)); err != nil {
		return err
	}
	params := map[string]map[string]string{}
	for _, class := range classes.Items {
		if class.Provisioner == provisioner {
			params[class.Name] = class.Parameters
		}
	}
	have := map[string]bool{}
	var errs []error
	for _, v := range volumes.Items {
		have[v.Name] = true
		if v.Status.Phase == corev1.VolumeReleased && v.Spec.HostPath != nil && v.Spec.HostPath.Path == c.folder(v.Name) {
			errs = append(errs, os.RemoveAll(c.folder(v.Name)), c.API("DELETE", "/api/v1/persistentvolumes/"+v.Name, nil, nil))
		}
	}
	for _, claim := range claims.Items {
		if claim.Spec.StorageClassName == nil {
			continue
		}
		class, ours := params[*claim.Spec.StorageClassName]
		name := "pvc-" + string(claim.UID)
		switch {
		case !ours:
		case claim.Status.Phase == corev1.ClaimPending && !have[name]:
			errs = append(errs, c.makeVolume(name, &claim))
		case claim.Status.Phase == corev1.ClaimBound && len(class) > 0:
			errs = append(errs, c.limitPod(&claim, class))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) folder(volume string) string { return filepath.Join(c.State, "volumes", volume) }

// makeVolume makes a claim's volume, which every user may write to.
func (c *Cluster) makeVolume(name string, claim *corev1.PersistentVolumeClaim) error {
	dir := c.folder(name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o777)); err != nil {
		return err
	}
	return c.API("POST", "/api/v1/persistentvolumes", map[string]any{
		"metadata": map[string]any{"name": name, "annotations": map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		"spec": map[string]any{
			"storageClassName": *claim.Spec.StorageClassName, "capacity": claim.Spec.Resources.Requests, "accessModes": claim.Spec.AccessModes,
			"hostPath": map[string]string{"path": dir, "type": "Directory"}, "persistentVolumeReclaimPolicy": "Delete",
			"claimRef": map[string]string{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.Namespace, "name": claim.Name, "uid": string(claim.UID)},
		},
	}, nil)
}

// limitPod limits what the containers of a claim's pod read and write on the disk of State.
func (c *Cluster) limitPod(claim *corev1.PersistentVolumeClaim, params map[string]string) error {
	disk, err := diskOf(c.State)
	if err != nil {
		return err
	}
	for _, owner := range claim.OwnerReferences { // the pod, of an ephemeral volume
		pod := "pod" + string(owner.UID)
		for _, l := range limits {
			if params[l.param] == "" {
				continue
			}
			for _, g := range groupsOf("/sys/fs/cgroup/blkio/", pod+"/*") {
				if err := os.WriteFile(filepath.Join(g, l.v1), []byte(disk+" "+params[l.param]), 0); err != nil {
					return err
				}
			}
			for _, g := range groupsOf("/sys/fs/cgroup/", pod) {
				if err := os.WriteFile(filepath.Join(g, "io.max"), []byte(disk+" "+l.v2+"="+params[l.param]), 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// groupsOf lists the control groups of a pod, which are one level deeper for pods without limits.
func groupsOf(hierarchy, pod string) (all []string) {
	for _, pattern := range []string{"node-*/kubepods/", "node-*/kubepods/*/"} {
		found, _ := filepath.Glob(hierarchy + pattern + pod + "/cgroup.procs")
		for _, procs := range found {
			all = append(all, filepath.Dir(procs))
		}
	}
	return all
}

// diskOf is the number of the disk on which a folder is, as MAJOR:MINOR. A partition's limits are those of its disk.
func diskOf(folder string) (string, error) {
	var s unix.Stat_t
	if err := unix.Stat(folder, &s); err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	device, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("the disk of %s: %w (a volume's limits need a disk)", folder, err)
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); err == nil {
		device = filepath.Dir(device)
	}
	b, err := os.ReadFile(filepath.Join(device, "dev"))
	return strings.TrimSpace(string(b)), err
}
