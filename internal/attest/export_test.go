package attest

// Collected reads what NVIDIA's tool prints.
var Collected = collected
