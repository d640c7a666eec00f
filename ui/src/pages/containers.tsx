export default function Containers() { return null; }
