package metric

// Counted names the metric that says which devices a sum over devices counts, so that each byte counts once: a bond has the bytes
// of its cards, an encrypted volume those of its disk. Whoever sums takes it from here, the page too.
type Counted string

// The devices of node_disk_*, of node_network_* and of container_fs_*.
const (
	CountedDisks          Counted = "tee_disk_counted"
	CountedNetworks       Counted = "tee_network_device_counted"
	CountedContainerDisks Counted = "tee_container_disk_counted"
)

// FilterVector returns the query for the elements of a vector by device that count, on the machines of the matchers.
func (c Counted) FilterVector(vector, matchers string) string {
	return vector + " and on (job, instance, device) " + string(c) + "{" + matchers + "} == 1"
}
