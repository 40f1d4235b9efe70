/**
 * Bridge: JSON-RPC 2.0, both ways, over the stdin and stdout of one Python process.
 *
 * A frame is one line of JSON, ended by the byte LF. Bytes are cut, not text: `node:readline` would also cut at U+2028.
 * All three streams are pipes, since anything that a child writes to Pi's own would corrupt RPC mode or draw over the TUI.
 * The process is in a session of its own: what is sent to Pi's whole group (Ctrl-C, a closed terminal, `timeout`) does not
 * reach it, and it ends with its input.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";

/** What Python may send along; `ctx` names the context that a call is for. */
export type Params = Record<string, unknown> & { ctx?: string };

export interface Hello {
	pid: number;
	/** Modules that every command needs and this interpreter lacks. */
	missing: string[];
}

interface Frame {
	id?: string;
	method?: string;
	params?: Params;
	result?: unknown;
	error?: { code: number; message: string };
}

interface Waiting {
	resolve(result: unknown): void;
	reject(error: Error): void;
}

export interface PeerOptions {
	/** Answers Python's requests. An error's `code`, where it has one, becomes the RPC error code. */
	serve(method: string, params: Params): Promise<unknown>;
	/** Called once if the process ends unasked after its hello; calls in flight are rejected with a `PeerGone`. */
	onCrash(reason: string): void;
}

const HELLO_TIMEOUT_MS = 10_000;
const STDERR_TAIL = 8192;
const ERROR = -32000;

/** One Python process, from its spawn to its end. */
export class Peer {
	/** Resolves with Python's hello; rejects, saying why, if the process ends or hangs before it. */
	readonly ready: Promise<Hello>;
	private readonly child: ChildProcessWithoutNullStreams;
	private readonly options: PeerOptions;
	private readonly waiting = new Map<string, Waiting>();
	private partial: Buffer[] = [];
	private stderrTail = "";
	private sent = 0;
	private greeted = false;
	private stopping = false;
	private ended = false;

	constructor(python: string, args: string[], env: NodeJS.ProcessEnv, options: PeerOptions) {
		this.options = options;
		this.child = spawn(python, args, { stdio: "pipe", windowsHide: true, detached: process.platform !== "win32", env });
		this.child.stdout.on("data", (chunk: Buffer) => this.receive(chunk));
		this.child.stderr.on("data", (chunk: Buffer) => {
			this.stderrTail = (this.stderrTail + chunk.toString("utf8")).slice(-STDERR_TAIL);
		});
		this.child.stdin.on("error", () => {}); // EPIPE when Python dies: "exit" reports it
		this.child.once("error", (error) => this.end(error.message));
		this.child.once("exit", (code, signal) => {
			const end = () => this.end(`${signal ?? `exit ${code}`}${this.lastWords()}`);
			this.child.once("close", end); // its last words may still be in the pipe,
			setTimeout(end, 200).unref(); // or a grandchild may hold the pipe open
		});
		this.ready = this.hello();
	}

	get alive(): boolean {
		return !this.ended && !this.stopping && this.child.exitCode === null && this.child.signalCode === null;
	}

	notify(method: string, params: Params): void {
		this.send({ method, params });
	}

	request(method: string, params: Params): Promise<unknown> {
		const id = `h${++this.sent}`;
		return new Promise((resolve, reject) => {
			if (this.ended) return reject(gone("it is not running"));
			this.waiting.set(id, { resolve, reject });
			this.send({ id, method, params });
		});
	}

	/** Ends the process: end of input, which it obeys at once, then signals. Bounded, since Pi waits for its extensions. */
	async stop(graceMs = 1000): Promise<void> {
		this.stopping = true;
		if (this.ended || this.child.pid === undefined) return;
		const exited = new Promise<void>((resolve) => this.child.once("exit", () => resolve()));
		const running = () => this.child.exitCode === null && this.child.signalCode === null;
		this.child.stdin.end();
		for (const signal of ["SIGTERM", "SIGKILL"] as const) {
			if (running()) await Promise.race([exited, new Promise((resolve) => setTimeout(resolve, graceMs).unref())]);
			if (running()) this.child.kill(signal);
		}
	}

	/** Closes the line and lets the process finish on its own. Waits until what was said is on its way, and no longer. */
	async release(graceMs = 1000): Promise<void> {
		this.stopping = true;
		if (this.ended || this.child.pid === undefined) return;
		this.child.unref();
		this.child.stdout.destroy();
		this.child.stderr.destroy();
		const late = new Promise((resolve) => setTimeout(resolve, graceMs).unref());
		await Promise.race([new Promise<void>((resolve) => this.child.stdin.end(() => resolve())), late]);
		this.child.stdin.destroy();
	}

	private async hello(): Promise<Hello> {
		const timer = setTimeout(() => this.stopping || this.end("it does not answer"), HELLO_TIMEOUT_MS).unref();
		try {
			const hello = (await this.request("hello", {})) as Hello;
			this.greeted = true;
			return hello;
		} finally {
			clearTimeout(timer);
		}
	}

	private end(reason: string): void {
		if (this.ended) return;
		this.ended = true;
		this.child.kill("SIGKILL"); // nothing to kill, unless it hung
		for (const { reject } of this.waiting.values()) reject(gone(reason));
		this.waiting.clear();
		if (this.greeted && !this.stopping) this.options.onCrash(reason);
	}

	private lastWords(): string {
		const line = this.stderrTail.trimEnd().split("\n").at(-1)?.trim();
		return line ? `: ${line.slice(0, 300)}` : "";
	}

	private receive(chunk: Buffer): void {
		let start = 0;
		for (let lf = chunk.indexOf(10); lf !== -1; lf = chunk.indexOf(10, start)) {
			this.partial.push(chunk.subarray(start, lf));
			const line = Buffer.concat(this.partial);
			this.partial = [];
			start = lf + 1;
			this.handle(line.toString("utf8"));
		}
		if (start < chunk.length) this.partial.push(chunk.subarray(start));
	}

	private handle(line: string): void {
		let frame: Frame;
		try {
			frame = JSON.parse(line) as Frame;
		} catch {
			return this.end(`it answered with something other than JSON-RPC: ${line.slice(0, 80)}`);
		}
		if (frame.method !== undefined) return void this.answer(frame.method, frame.params ?? {}, frame.id);
		const waiting = this.waiting.get(frame.id ?? "");
		this.waiting.delete(frame.id ?? "");
		if (frame.error) waiting?.reject(new Error(frame.error.message));
		else waiting?.resolve(frame.result);
	}

	private async answer(method: string, params: Params, id: string | undefined): Promise<void> {
		let outcome: Pick<Frame, "result" | "error">;
		try {
			outcome = { result: (await this.options.serve(method, params)) ?? null };
		} catch (error) {
			const { code = ERROR, message } = error as Error & { code?: number };
			outcome = { error: { code: typeof code === "number" ? code : ERROR, message } };
		}
		if (id !== undefined) this.send({ id, ...outcome });
	}

	private send(frame: Frame): void {
		if (this.child.stdin.writable) this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
	}
}

/** Whether `error` says that the process ended. By name: after `/new` the class may come from an older load of this module. */
export function isPeerGone(error: unknown): boolean {
	return error instanceof Error && error.name === "PeerGone";
}

function gone(reason: string): Error {
	return Object.assign(new Error(reason), { name: "PeerGone" });
}
