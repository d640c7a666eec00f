#!/usr/bin/python3
"""Write a language model of another size than a given one, with random weights and its tokenizer.

    random_weights.py MODEL.gguf SIZE FILE

writes FILE for a size of SIZES. MODEL.gguf is SmolLM2-135M-Instruct. The architecture (llama), the tokenizer, the chat
template and the types of the tensors are the model's, so a token costs the work of a real model of that size. The answers
mean nothing. The same size always gives the same file. Needs numpy, and the package gguf of llama.cpp's sources.
"""

import sys

import gguf
import numpy

# layers, width, heads, heads of keys and values, width of the feed-forward part. A head is 64 wide, as in the model.
# 362m has the shape of SmolLM2-360M.
SIZES = {
    "38m": (12, 384, 6, 2, 1024),
    "362m": (32, 960, 15, 5, 2560),
}

HEAD = 64
SEED = 1
DEVIATION = 0.02  # of the weights, as where training of such a model begins


def is_text(token: str, kind: int) -> bool:
    """Tell whether a token is a word or part of one. A token that is part of a character has no text until the next one."""
    return kind == gguf.TokenType.NORMAL and all(c.isascii() or c in "ĠĊ" for c in token)


def field(model: gguf.GGUFReader, name: str):
    return model.fields[name].contents()


def write(model: gguf.GGUFReader, size: str, path: str) -> None:
    layers, width, heads, groups, wide = SIZES[size]
    new = gguf.GGUFWriter(path, "llama")
    own = {
        "general.name": f"random-{size}",
        "general.size_label": size.upper(),
        "llama.block_count": layers,
        "llama.embedding_length": width,
        "llama.feed_forward_length": wide,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": groups,
    }
    for key, f in model.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue  # the writer adds them
        if key.startswith("general.") and key not in ("general.type", "general.file_type", "general.quantization_version", *own):
            continue  # where the real model comes from
        kind = f.types[0]
        part = f.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        new.add_key_value(key, own.get(key, f.contents()), kind, part)

    shapes = {
        "attn_norm": (width,), "ffn_norm": (width,),
        "attn_q": (width, width), "attn_k": (groups * HEAD, width), "attn_v": (groups * HEAD, width), "attn_output": (width, width),
        "ffn_gate": (wide, width), "ffn_up": (wide, width), "ffn_down": (width, wide),
    }
    types = {t.name: t.tensor_type for t in model.tensors}
    random = numpy.random.default_rng(SEED)

    def add(tensor: str, shape: tuple, like: str) -> None:
        if len(shape) == 1:
            new.add_tensor(tensor, numpy.ones(shape, dtype=numpy.float32))
            return
        values = random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(DEVIATION)
        if tensor == "token_embd.weight":  # also the last layer: tokens without text are never the likeliest
            kinds = field(model, "tokenizer.ggml.token_type")
            silent = [i for i, t in enumerate(field(model, "tokenizer.ggml.tokens")) if not is_text(t, kinds[i])]
            values[silent] = 0
        new.add_tensor(tensor, gguf.quants.quantize(values, types[like]), raw_dtype=types[like])

    add("token_embd.weight", (field(model, "llama.vocab_size"), width), "token_embd.weight")
    for layer in range(layers):
        for part, shape in shapes.items():
            add(f"blk.{layer}.{part}.weight", shape, f"blk.0.{part}.weight")
    add("output_norm.weight", (width,), "output_norm.weight")
    new.write_header_to_file()
    new.write_kv_data_to_file()
    new.write_tensors_to_file()
    new.close()


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[2] not in SIZES:
        sys.exit(f"usage: random_weights.py MODEL.gguf SIZE FILE   (sizes: {', '.join(SIZES)})")
    write(gguf.GGUFReader(sys.argv[1]), sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
