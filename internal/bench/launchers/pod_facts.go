package launchers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/result"
)

// What the cluster says of the network between pods and of a pod's volume. An account that may not ask leaves a reason.

// object is what is read of Kubernetes' objects.
type object struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Template struct {
			Spec struct{ Containers []struct{ Image string } }
		}
		WireguardEnabled bool // FelixConfiguration
		// PersistentVolumeClaim and PersistentVolume
		VolumeName, StorageClassName, VolumeMode string
		MountOptions                             []string
		Capacity                                 map[string]string
		CSI                                      *struct {
			Driver, FSType   string
			VolumeAttributes map[string]string
		}
	}
	Data map[string]string // ConfigMap
	// StorageClass
	Provisioner, VolumeBindingMode string
	Parameters                     map[string]string
}

// plugin is a network plugin: the DaemonSet by which it is recognized, and the object that says whether it encrypts; nil:
// not known.
type plugin struct {
	name, daemonSet string
	config          string // TYPE/NAME; in the namespace of the DaemonSet, unless its type has none
	encryption      func(object) string
}

// plugins are the network plugins that are known.
var plugins = []plugin{
	// Documentation/security/network/encryption.rst of Cilium: helm's encryption.type becomes one of these keys.
	{"cilium", "cilium", "configmap/cilium-config", ciliumEncryption},
	{"cilium (GKE Dataplane V2)", "anetd", "configmap/cilium-config", ciliumEncryption},
	// Reference of Calico's FelixConfiguration.
	{"calico", "calico-node", "felixconfigurations.crd.projectcalico.org/default", func(o object) string { return chosen(o.Spec.WireguardEnabled, "wireguard") }},
	// Documentation/backends.md of flannel.
	{"flannel", "kube-flannel-ds", "configmap/kube-flannel-cfg", func(o object) string {
		var net struct{ Backend struct{ Type string } }
		if json.Unmarshal([]byte(o.Data["net-conf.json"]), &net) != nil {
			return ""
		}
		kind := strings.ToLower(net.Backend.Type)
		if slices.Contains(inTheClear, kind) {
			return "none"
		}
		return oneOf(kind, "wireguard", "ipsec")
	}},
	// docs/traffic-encryption.md of Antrea.
	{"antrea", "antrea-agent", "configmap/antrea-config", func(o object) string {
		var agent struct {
			Mode string `yaml:"trafficEncryptionMode"`
		}
		if yaml.Unmarshal([]byte(o.Data["antrea-agent.conf"]), &agent) != nil {
			return ""
		}
		return oneOf(cmp.Or(strings.ToLower(agent.Mode), "none"), "none", "wireguard", "ipsec")
	}},
	{name: "kindnet", daemonSet: "kindnet"},
	{name: "amazon-vpc-cni", daemonSet: "aws-node"},
	{name: "azure-cns", daemonSet: "azure-cns"},
	{name: "ovn-kubernetes", daemonSet: "ovnkube-node"},
	{name: "kube-router", daemonSet: "kube-router"},
}

func ciliumEncryption(o object) string {
	for _, kind := range []string{"wireguard", "ipsec"} {
		word := o.Data["enable-"+kind]
		switch on, err := strconv.ParseBool(cmp.Or(word, "false")); {
		case err != nil:
			return unknownWord + word
		case on:
			return kind
		}
	}
	return "none"
}

// unknownWord begins what is not known to encrypt or not; the word follows.
const unknownWord = "unknown: "

// inTheClear are the backends of flannel that do not encrypt (Documentation/backends.md); vxlan is the default.
var inTheClear = []string{"", "vxlan", "host-gw", "udp", "alloc", "extension", "ali-vpc", "alivpc", "aws-vpc", "awsvpc", "gce", "tencent-vpc", "tencentvpc"}

func oneOf(word string, known ...string) string {
	if slices.Contains(known, word) {
		return word
	}
	return unknownWord + word
}

func chosen(on bool, what string) string {
	if on {
		return what
	}
	return "none"
}

// describeNetwork records the network plugin and whether it encrypts. Pods see the MTU of their own interface, which the
// capture from inside records.
func (e *podEnv) describeNetwork(ctx context.Context, d *result.Environment) {
	lacks := func(what, why string) { d.Missing = withEntry(d.Missing, what, why) }
	const version, encryption = "software.versions.cni", "software.encryption.network"
	if e.params["via"] == "node" {
		const why = "the pods use the network of their nodes, without the cluster's"
		lacks(version, why)
		lacks(encryption, why)
		return
	}
	var all struct{ Items []object }
	if err := e.read(ctx, &all, "daemonsets", "--all-namespaces"); err != nil {
		lacks(version, err.Error())
		lacks(encryption, err.Error())
		return
	}
	p, set := findPlugin(all.Items)
	if p == nil {
		const why = "no DaemonSet of the cluster belongs to a network plugin that teescope knows"
		lacks(version, why)
		lacks(encryption, why)
		return
	}
	d.Software.Versions = withEntry(d.Software.Versions, "cni", strings.TrimSpace(p.name+" "+set.image()))
	if p.encryption == nil {
		lacks(encryption, "teescope does not know where "+p.name+" states whether it encrypts")
		return
	}
	var config object
	if err := e.read(ctx, &config, p.config, "--namespace="+set.Metadata.Namespace); err != nil {
		lacks(encryption, err.Error())
		return
	}
	kind := p.encryption(config)
	if word, unknown := strings.CutPrefix(kind, unknownWord); unknown {
		lacks(encryption, fmt.Sprintf("unknown: %s of %s says %q", p.config, p.name, word))
		return
	}
	if kind == "" {
		lacks(encryption, p.config+" cannot be read, because its format is not the expected one")
		return
	}
	d.Software.Encryption = withEntry(d.Software.Encryption, "network", kind)
}

func findPlugin(sets []object) (*plugin, *object) {
	for i := range plugins {
		for j := range sets {
			if sets[j].Metadata.Name == plugins[i].daemonSet {
				return &plugins[i], &sets[j]
			}
		}
	}
	return nil, nil
}

// image is the first one of a DaemonSet; its tag is the plugin's version.
func (o *object) image() string {
	if c := o.Spec.Template.Spec.Containers; len(c) > 0 {
		return c[0].Image
	}
	return ""
}

// describeVolume records what the volume is: the class that was used, its parameters and binding, and of the volume the
// driver, attributes such as the disk's caching mode, options and size.
func (e *podEnv) describeVolume(ctx context.Context, d *result.Environment) {
	facts, err := e.volume(ctx)
	maps.Copy(d.Params, facts)
	if err != nil {
		d.Missing = withEntry(d.Missing, "params.volume", err.Error())
	}
}

func (e *podEnv) volume(ctx context.Context) (map[string]string, error) {
	facts := map[string]string{}
	add := func(prefix string, values map[string]string) {
		for k, v := range values {
			if v != "" {
				facts[prefix+k] = v
			}
		}
	}
	var claim, class, volume object
	if err := e.read(ctx, &claim, "persistentvolumeclaim/"+e.name+"-data"); err != nil { // the claim of an ephemeral volume is POD-VOLUME
		return facts, err
	}
	add("", map[string]string{"storageClass": claim.Spec.StorageClassName})
	var errs []error
	if name := claim.Spec.StorageClassName; name != "" {
		errs = append(errs, e.read(ctx, &class, "storageclass/"+name))
		add("storageClass.", map[string]string{"provisioner": class.Provisioner, "binding": class.VolumeBindingMode})
		add("storageClass.", class.Parameters)
	}
	if name := claim.Spec.VolumeName; name != "" {
		errs = append(errs, e.read(ctx, &volume, "persistentvolume/"+name))
		add("volume.", map[string]string{"capacity": volume.Spec.Capacity["storage"], "mountOptions": strings.Join(volume.Spec.MountOptions, ","), "mode": volume.Spec.VolumeMode})
		if csi := volume.Spec.CSI; csi != nil {
			add("volume.", map[string]string{"driver": csi.Driver, "fsType": csi.FSType})
			add("volume.", shared(csi.VolumeAttributes))
		}
	}
	return facts, errors.Join(errs...)
}

// shared are the attributes that say what kind a volume is, not which: those differ for each volume, and would make
// environments differ that are alike.
func shared(attributes map[string]string) map[string]string {
	own := []string{"storage.kubernetes.io/csiProvisionerIdentity", "csi.storage.k8s.io/pv/name", "csi.storage.k8s.io/pvc/name", "csi.storage.k8s.io/pvc/namespace"}
	out := maps.Clone(attributes)
	maps.DeleteFunc(out, func(k, _ string) bool { return slices.Contains(own, k) })
	return out
}

// read asks the cluster for an object, or a list.
func (e *podEnv) read(ctx context.Context, into any, args ...string) error {
	p := e.params
	if len(args) > 1 { // the arguments name the namespace
		p = maps.Clone(p)
		p["namespace"] = ""
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out, err := e.h.Exec(ctx, kubectl(p, append(append([]string{"get"}, args...), "--output=json")...))
	if err != nil {
		return fmt.Errorf("ask the cluster for %s: %w%s", args[0], err, lastWords(out))
	}
	if err := json.Unmarshal(out.Stdout, into); err != nil {
		return fmt.Errorf("the cluster's answer for %s: %w", args[0], err)
	}
	return nil
}
