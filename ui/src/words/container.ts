// What to call a container.

export interface ContainerLabels {
  id: string;
  name?: string;
  namespace?: string;
  pod?: string;
  container?: string;
  [label: string]: string | undefined;
}

/** The pod's container, its sandbox or the pod itself if there is a pod, or else the runtime's name, or else the last part of the
 * cgroup's path. 64 hexadecimal digits are cut to the 12 that container tools print. */
export function containerName(l: ContainerLabels): string {
  if (l.pod) return [l.namespace, l.pod, l.container || (l.name && "sandbox")].filter(Boolean).join("/");
  const last = l.id.split("/").findLast((part) => part !== "") ?? "/";
  return (l.name || last).replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/, "$1");
}
