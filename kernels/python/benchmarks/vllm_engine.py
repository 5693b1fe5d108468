# SPDX-License-Identifier: Apache-2.0
"""vllm_engine.py - what vLLM's engine gains end to end by libattune's attention.

    python kernels/python/benchmarks/vllm_engine.py                      a table
    python kernels/python/benchmarks/vllm_engine.py --model qwen3-0.6b --json out.json
    python kernels/python/benchmarks/vllm_engine.py --trace lengths.csv  prompt_tokens,output_tokens
    python kernels/python/benchmarks/vllm_engine.py --check FLASH_ATTN   tokens beside a backend's

The model has random weights and the shape of a published one. Each backend gets an engine of its
own in a new process, one after the other; the engine runs in that process, so that no pipe is in
the times. The requests arrive at once; each repeat has new prompts of the same lengths, the same
for all backends. A backend is a value of --attention-backend, or

    none    no attention at all: what is not attention

--engine has arguments of vllm.LLM in JSON, such as '{"compilation_config": {"mode": 0}}'.

Columns: new tokens per second, time to the first token and between tokens as a caller of the engine
sees them, and attention's share, by which the time is above that of the same run without attention.
+- is the half of a 95 % interval over repeats.

--check prints how many of the tokens of --check-requests requests are those of the backend that it
names, and log-probabilities beside its own: the largest and the mean difference at tokens of
prompts, the largest at new tokens before a request falls apart, and how far the two tokens are from
one another where it does. Kernels that add in other orders fall apart where these are as good as
equal.

With --interleave all engines are open at once and take turns, a repeat each, so that a change of
the host's speed meets all of them. Say by --engine how much memory each takes:
'{"kv_cache_memory_bytes": 8000000000, "gpu_memory_utilization": 0.2}'.
"""

import argparse
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
import traceback

from common import (
    MODELS,
    SERVED,
    add_request_options,
    head,
    line,
    repeated,
    request_lengths,
    save,
    served,
    title,
)

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
try:
    import torch
    import transformers
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.platforms import current_platform
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.attention.backends.registry import register_backend

    import libattune
    from libattune import vllm_backend
except ImportError as e:
    sys.exit(f"vllm_engine.py: {e}; it needs vllm 0.33 and libattune")

CHECKED = ["tokens", "equal", "apart", "apart_gap", "new_most", "prompt_most", "prompt_mean"]


class NoAttention(vllm_backend.AttuneBackend):
    @staticmethod
    def get_name():
        return "NONE"

    @staticmethod
    def get_impl_cls():
        return NoAttentionImpl

    @staticmethod
    def get_builder_cls():
        return NoAttentionBuilder


class NoAttentionBuilder(vllm_backend.AttuneMetadataBuilder):
    def __init__(self, *args):
        super().__init__(*args)
        self.layers = set()  # nothing is planned


class NoAttentionImpl(vllm_backend.AttuneImpl):
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, **unused):
        return output.copy_(query)

    def do_kv_cache_update(self, *unused):
        pass


def build(args, backend):
    """An engine whose weights are the same for all backends."""
    kind, shape, whole = MODELS[args.model]
    config = getattr(transformers, kind + "Config")(
        **shape,
        num_hidden_layers=args.layers or whole,
        architectures=[kind + "ForCausalLM"],
        dtype=args.dtype,
    )
    if backend == "none":
        register_backend("NONE", f"{__name__}.NoAttention")
    options = dict(
        dtype=args.dtype,
        max_model_len=args.max_model_len,
        block_size=args.page,
        enable_prefix_caching=False,
        attention_backend=backend.upper(),
        seed=0,
    )
    if args.tokens_a_step:
        options["max_num_batched_tokens"] = args.tokens_a_step
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            **options | json.loads(args.engine),
        )
    llm.apply_model(fill_weights)
    return llm


def fill_weights(model):
    """vLLM's dummy weights are so small that attention would change no token."""
    for i, (_, weight) in enumerate(sorted(model.named_parameters())):
        if weight.dim() > 1:
            draw = torch.Generator(weight.device).manual_seed(i)
            weight.data.normal_(0, 0.02, generator=draw)
        else:
            weight.data.fill_(1)


def params(new, **more):
    return SamplingParams(
        temperature=0,
        max_tokens=new,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
        **more,
    )


def prompts_of(lengths, seed, vocabulary):
    draw = random.Random(seed)
    return [
        {"prompt_token_ids": [draw.randrange(vocabulary) for _ in range(p)]} for p, _ in lengths
    ]


def outputs_of(llm, lengths, seed, **more):
    """Runs a request for each of lengths; yields what the engine gives, as it comes."""
    engine = llm.llm_engine
    prompts = prompts_of(lengths, seed, llm.model_config.get_vocab_size())
    for i, (prompt, (_, new)) in enumerate(zip(prompts, lengths)):
        engine.add_request(f"{seed}-{i}", prompt, params(new, **more))
    while engine.has_unfinished_requests():
        for output in engine.step():
            yield int(output.request_id.split("-")[1]), output


def one_batch(llm, lengths, seed):
    """One repeat: {statistic: value}, times in ms."""
    stamps = [[] for _ in lengths]
    began = time.perf_counter()
    for i, output in outputs_of(llm, lengths, seed):
        now = time.perf_counter()
        stamps[i] += [now] * len(output.outputs[0].token_ids)
    return served(began, time.perf_counter(), stamps)


def tokens_of(llm, lengths):
    """[(tokens, their log-probabilities and those of others, those of the prompt's), ...]"""
    found = [([], [], []) for _ in lengths]
    for i, output in outputs_of(llm, lengths, 0, logprobs=8, prompt_logprobs=0):
        tokens, new, prompt = found[i]
        tokens += output.outputs[0].token_ids
        new += [{t: p.logprob for t, p in at.items()} for at in output.outputs[0].logprobs or []]
        if not prompt and output.prompt_logprobs:
            asked = output.prompt_token_ids
            prompt += [at[t].logprob for t, at in zip(asked[1:], output.prompt_logprobs[1:])]
    return found


def serve(pipe, backend, args, lengths):
    """A process: answers what Engine.ask sends, first that it is ready."""
    try:
        with torch.inference_mode():
            llm = build(args, backend)
            one_batch(llm, [(p, min(n, 8)) for p, n in lengths], 0)  # warm-up
            compilation = llm.llm_engine.vllm_config.compilation_config
            pipe.send(("ready", str(compilation.cudagraph_mode)))
            while (question := pipe.recv()) is not None:
                work, *what = question
                pipe.send((work.__name__, work(llm, *what)))
    except Exception as e:
        traceback.print_exc()
        pipe.send(("refused", f"{type(e).__name__}: {e}".splitlines()[0][:160]))


class Engine:
    """A backend's engine in a process of its own.

    result   {'repeats': [...], 'graphs': ...}, or {'refused': why}"""

    def __init__(self, backend, args, lengths):
        context = multiprocessing.get_context(args.start)
        self.pipe, its = context.Pipe()
        self.process = context.Process(target=serve, args=(its, backend, args, lengths))
        self.process.start()
        its.close()
        self.result = {"repeats": []}

    def ready(self):
        graphs = self.ask()
        if graphs:
            self.result["graphs"] = graphs

    def ask(self, *question):
        """What work(llm, *what) gives there, for a question of work, *what; None: it is gone."""
        if "refused" in self.result:
            return None
        try:
            if question:
                self.pipe.send(question)
            kind, answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            kind, answer = "refused", f"its process ended by {self.process.exitcode}"
        if kind != "refused":
            return answer
        self.result = {"refused": answer}
        return None

    def repeat(self, lengths, seed):
        answer = self.ask(one_batch, lengths, seed)
        if answer:
            self.result["repeats"].append(answer)

    def close(self):
        if "refused" not in self.result:
            self.pipe.send(None)
        self.process.join()
        return self.result


def measured(backends, args, lengths):
    """{backend: result}, all of which are open at the same time."""
    engines = {backend: Engine(backend, args, lengths) for backend in backends}
    for engine in engines.values():
        engine.ready()

    def one_round(seed):
        for engine in engines.values():
            engine.repeat(lengths, seed)

    repeated(args, one_round)
    if args.check:
        few = [(p, min(n, args.check_new)) for p, n in lengths[: args.check_requests]]
        for backend, engine in engines.items():
            tokens = engine.ask(tokens_of, few) if backend != "none" else None
            if tokens:
                engine.result["checked"] = tokens
    return {backend: engine.close() for backend, engine in engines.items()}


def compared(ours, reference):
    """{column: value} of two results of tokens_of"""
    equal = apart = 0
    gaps, new_most, prompt = [0.0], 0.0, [0.0]
    for (tokens, new, asked), (their_tokens, their_new, their_asked) in zip(ours, reference):
        prompt += [abs(a - b) for a, b in zip(asked, their_asked)]
        for at, (a, b) in enumerate(zip(tokens, their_tokens)):
            if a != b:
                apart += 1
                their = their_new[at]
                gaps.append(their[b] - their.get(a, float("-inf")))
                break
            equal += 1
            new_most = max(new_most, abs(new[at][a] - their_new[at][a]))
    return {
        "tokens": sum(len(tokens) for tokens, _, _ in reference),
        "equal": equal,
        "apart": apart,
        "apart_gap": max(gaps),
        "new_most": new_most,
        "prompt_most": max(prompt),
        "prompt_mean": statistics.fmean(prompt),
    }


def bases(results):
    """Repeats without attention"""
    return results.get("none", {}).get("repeats", ())


def print_check(results, reference):
    """Tokens of all backends beside those of the reference."""
    have = {name: r.pop("checked") for name, r in results.items() if "checked" in r}
    if reference not in have:
        print(f"\n--check {reference}: it has not run")
        return
    print(f"\ntokens beside those of {reference}")
    print("path".ljust(13) + "".join(c.replace("_", " ").rjust(13) for c in CHECKED))
    for name in have:
        if name != reference:
            row = results[name]["check"] = compared(have[name], have[reference])
            print(name.ljust(13) + "".join(f"{row[c]:.4g}".rjust(13) for c in CHECKED), flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", choices=MODELS, default="llama3.1-8b")
    add("--layers", type=int, help="fewer layers than the model has")
    add("--dtype", default="bfloat16")
    add("--backends", default="none,ATTUNE,ATTUNE_DECODE,FLASH_ATTN,TRITON_ATTN")
    add("--max-model-len", type=int, default=8192)
    add("--tokens-a-step", type=int, help="max_num_batched_tokens; vLLM's own choice")
    add("--page", type=int, default=16, help="tokens of a block")
    add("--engine", default="{}", help="arguments of vllm.LLM in JSON")
    add("--start", default="spawn", help="how a process starts: spawn or fork")
    add("--interleave", action="store_true", help="backends take turns")
    add("--check", metavar="BACKEND", help="compares tokens")
    add("--check-requests", type=int, default=16)
    add("--check-new", type=int, default=32)
    add_request_options(parser)
    return parser.parse_args()


def main():
    args = arguments()
    try:
        device = current_platform.get_device_name()
    except NotImplementedError:
        sys.exit("vllm_engine.py: this vLLM finds no device here that it can run on")
    lengths = request_lengths(args)
    results = {}
    about = {
        "device": device,
        "libattune": libattune.__version__,
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "model": args.model,
        "layers": args.layers or MODELS[args.model][2],
        "dtype": args.dtype,
        "arguments": vars(args),
        "lengths": lengths,
        "backends": results,
    }
    print(", ".join(f"{k} {about[k]}" for k in list(about)[:7]))
    backends = sorted(filter(None, args.backends.split(",")), key=lambda b: b != "none")
    head(title("vLLM's engine", lengths), SERVED)
    for group in [backends] if args.interleave else [[b] for b in backends]:
        results |= measured(group, args, lengths)
        for backend in group:
            result = results[backend]
            for mine, base in zip(result.get("repeats", ()), bases(results)):
                mine["share"] = 100 * (1 - base["seconds"] / mine["seconds"])
            line(backend, result, SERVED)
        save(about, args.json)
    if args.check:
        print_check(results, args.check)
        save(about, args.json)


if __name__ == "__main__":
    main()
