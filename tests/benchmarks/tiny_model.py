"""A random model of a few thousand weights with a tokenizer of letters: fast, and real in all but what it says."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("get", "_order", 'name": "', "<tool_call>", "user", "assistant")


def save_tiny_model(folder: Path, *, context: int = 512) -> Path:
    """Write the model as `transformers` does; merges make tokens of more than one letter."""
    vocabulary = {token: at for at, token in enumerate(["<unk>", "<|im_start|>", "<|im_end|>", *string.printable])}
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    made = Tokenizer(BPE(vocabulary, merges, unk_token="<unk>"))
    made.decoder = Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<|im_start|>", eos_token="<|im_end|>"
    )
    turn = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    tokenizer.chat_template = f"{{% for m in messages %}}{turn}{{% endfor %}}<|im_start|>assistant\n"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=context,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
