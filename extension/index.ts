/**
 * Machine for Pi. Install: `pi install <this folder>`. What the commands do is written in Python (src/machine); this side
 * registers them, keeps one Python process alive beside Pi, and answers what Python asks.
 *
 * The process is kept on `globalThis`: this factory runs again at every `/new`, `/resume`, `/fork` and `/reload`.
 */
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { isPeerGone, type Params, Peer } from "./bridge.ts";
import { Capture, captures } from "./capture.ts";
import { COMMANDS } from "./commands.ts";
import { coded, GONE, UNKNOWN_METHOD } from "./errors.ts";
import { hostMethods, say, Status } from "./host.ts";
import { Loan } from "./loan.ts";
import { registerProviders, watchProviders } from "./providers.ts";
import { environment, interpreters, makeEnvironment, pythonEnv, SIDECAR_ARGS, systemPython } from "./python.ts";
import { Retry } from "./retry.ts";
import { Student } from "./student.ts";
import { isOnTrial } from "./students.ts";

interface Shared {
	/** The session that Pi is in; undefined while it is being replaced, when every context is stale. */
	session?: ExtensionContext;
	/** Those who wait for the session that Pi goes into. */
	awaiting: ((session: ExtensionContext) => void)[];
	peer?: Peer;
	connection?: Promise<Peer>;
	opening: boolean;
	calls: number;
	running: number;
	toldUnusable: boolean;
	serve(method: string, params: Params): Promise<unknown>;
}

const KEY = Symbol.for("pi-machine.sidecar");
const holder = globalThis as { [KEY]?: Shared };
const NO_PYTHON = `Machine has no Python environment yet.\nNext: /machine setup (it makes one in ${environment()})`;

export default function machine(pi: ExtensionAPI): void {
	const shared = (holder[KEY] ??= { awaiting: [], opening: false, calls: 0, running: 0, toldUnusable: false, serve: async () => null });
	const commands = new Map<string, ExtensionContext>(); // the contexts of the commands that are running
	const registered = new Set<string>();
	const problems = registerProviders(pi, registered);
	watchProviders(pi, registered);
	const status = new Status();
	const capture = new Capture(pi);
	const retry = new Retry(pi, new Loan(pi));
	const ended = new AbortController();
	const reloadProviders = () => registerProviders(pi, registered);
	const student = new Student(pi, reloadProviders, () => retry.isOn);
	const methods = hostMethods(pi, { status, retry, student, ended: ended.signal, reloadProviders });
	let settles = false; // Pi < 0.80 has no agent_settled

	const tell = (name: string, capture?: Params) => shared.peer?.notify("event", { name, capture });

	/**
	 * Tells Python that turns may have ended, or that the user moved on. Where it is to look at the session, for it keeps turns
	 * or one is on trial, this starts it, if need be, and fails in silence.
	 */
	const tellTurns = (name: string, ctx: ExtensionContext, ended = true) => {
		const watched = ended ? capture.isWatched(ctx) : isOnTrial(ctx.cwd);
		if (watched) connect(shared).catch(() => {});
		tell(name, watched ? capture.params(ctx, shared.peer, ended) : undefined);
	};

	pi.on("session_start", (_event, ctx) => {
		shared.session = ctx;
		shared.serve = async (method, params) => {
			const isCommand = params.ctx && params.ctx !== "session";
			const called = isCommand ? commands.get(params.ctx as string) : await sessionNow(shared);
			if (!called) throw coded(GONE, "the session was replaced");
			const answer = Object.hasOwn(methods, method) ? methods[method] : undefined;
			if (!answer) throw coded(UNKNOWN_METHOD, `unknown method ${method}`);
			return answer(called, params);
		};
		for (const tell of shared.awaiting.splice(0)) tell(ctx);
		shared.peer?.notify("ctx.dead", {}); // the old session's open dialogs never resolve: Python gives up its calls
		for (const problem of problems.splice(0)) say(ctx, problem, "warning");
		capture.begin(ctx);
		const { hasUI } = ctx;
		if (!hasUI && !capture.isWatched(ctx)) return; // headless: Python starts with the first command
		connect(shared).then(
			() => tell("session_start"),
			(error: Error) => {
				if (!hasUI) return;
				if (!shared.toldUnusable && shared.session) say(shared.session, error.message, "warning");
				shared.toldUnusable = true;
			},
		);
	});

	pi.on("before_agent_start", async (_event, { model }) => {
		if (process.env.TINKER_API_KEY) return; // the service is another than this machine's engine, which may sleep
		if (model && (model.provider === "machine" || registered.has(model.provider))) await wake(shared);
	});
	pi.on("agent_settled", (_event, ctx) => {
		settles = true;
		tellTurns("agent_settled", ctx);
	});
	pi.on("agent_end", () => {
		setTimeout(() => !settles && shared.session?.isIdle() && tellTurns("agent_settled", shared.session), 100).unref();
	});
	pi.on("session_compact", (event, ctx) => {
		capture.compacted = true;
		if (event.reason !== "threshold" && event.reason !== "overflow") tellTurns("session_compact", ctx); // else the run settles
	});
	pi.on("session_tree", (_event, ctx) => tellTurns("session_tree", ctx, false));
	pi.on("model_select", (_event, ctx) => tellTurns("model_select", ctx, false));

	pi.on("session_shutdown", async (event, ctx) => {
		const mayWrite = captures(ctx.cwd) || isOnTrial(ctx.cwd);
		if (capture.isWatched(ctx)) tellTurns("session_shutdown", ctx);
		shared.session = undefined;
		commands.clear();
		ended.abort();
		if (event.reason !== "quit" && event.reason !== "reload") return;
		delete holder[KEY];
		await (mayWrite ? shared.peer?.release() : shared.peer?.stop());
	});

	for (const [name, { description, words }] of Object.entries(COMMANDS)) {
		pi.registerCommand(name, {
			description,
			getArgumentCompletions: (prefix) => {
				if (words.some((word) => word === prefix)) return null; // complete: Enter has to send it, not to choose a longer one
				const fitting = words.filter((word) => word.startsWith(prefix));
				return fitting.length > 0 ? fitting.map((word) => ({ value: word, label: word })) : null;
			},
			handler: async (args, ctx) => {
				const id = `command-${++shared.calls}`;
				commands.set(id, ctx);
				shared.running += 1;
				try {
					const canSetUp = name === "machine" && /^\s*setup\b/.test(args) && !process.env.MACHINE_PYTHON;
					if (canSetUp && !(await connect(shared).catch(() => undefined))) return await setup(shared, status);
					const peer = await connect(shared);
					await peer.request("command", { name, args, ctx: id });
				} catch (error) {
					if (!isPeerGone(error)) fail(shared, (error as Error).message); // of a crash, the user is told already
				} finally {
					shared.running -= 1;
					commands.delete(id);
				}
			},
		});
	}
}

/** The session that Pi is in; while it is being replaced, the one that comes: what Python has to say is not lost between. */
function sessionNow(shared: Shared): Promise<ExtensionContext> | ExtensionContext {
	return shared.session ?? new Promise((resolve) => shared.awaiting.push(resolve));
}

/** The running Python process, or a new one. Rejects with a message for the user where no interpreter will do. */
function connect(shared: Shared): Promise<Peer> {
	if (shared.connection && (shared.opening || shared.peer?.alive)) return shared.connection;
	shared.opening = true;
	shared.connection = open(shared).finally(() => (shared.opening = false));
	return shared.connection;
}

async function open(shared: Shared): Promise<Peer> {
	let problem = NO_PYTHON;
	for (const python of interpreters()) {
		const peer = new Peer(python, SIDECAR_ARGS, pythonEnv(), {
			serve: (method, params) => shared.serve(method, params),
			onCrash: (reason) => {
				for (const shown of ["ui.setStatus", "ui.setWidget"]) shared.serve(shown, {}).catch(() => {}); // no job goes on
				if (!shared.session?.hasUI && shared.running === 0) return; // nobody asked it for anything
				fail(shared, `Machine's Python process ended: ${reason}\nNext: the next command starts a new one`);
			},
		});
		shared.peer = peer;
		try {
			const { missing } = await peer.ready;
			if (missing.length === 0) return peer;
			problem = `Machine cannot use ${python}: it lacks ${missing.join(", ")}`;
			await peer.stop();
		} catch (error) {
			problem = `Machine cannot use ${python}: ${(error as Error).message}`;
		}
		if (holder[KEY] !== shared) break; // Pi has quit, or reloads
		problem += process.env.MACHINE_PYTHON ? "\nNext: mend or unset MACHINE_PYTHON" : "\nNext: /machine setup";
	}
	shared.peer = undefined;
	throw new Error(problem);
}

/** Has this machine's engine started where it is the one to answer and sleeps. What keeps it from it, the answer will say. */
async function wake(shared: Shared): Promise<void> {
	try {
		await (await connect(shared)).request("wake", {});
	} catch {}
}

/** Makes Machine's Python environment, then starts Python in it. It takes minutes: the session may be another by then. */
async function setup(shared: Shared, status: Status): Promise<void> {
	const python = await systemPython();
	if (!python) return fail(shared, "Machine needs Python 3.11 or later, with venv, and found none.\nNext: install it, then /machine setup");
	const question = `This makes a Python environment in ${environment()} and downloads Machine's packages into it.`;
	if (shared.session?.hasUI && !(await shared.session.ui.confirm("Set up Machine?", question))) return;
	try {
		await makeEnvironment(python, (line) => shared.session && progress(shared.session, status, line));
		const peer = await connect(shared);
		if (shared.session) status.say(shared.session, "progress", null);
		if (shared.session) say(shared.session, `Machine is set up in ${environment()}.\nNext: ask Pi something, then /good`);
		peer.notify("event", { name: "session_start" });
	} catch (error) {
		if (shared.session) status.say(shared.session, "progress", null);
		fail(shared, `The set-up failed: ${(error as Error).message}`);
	}
}

/** Shows a long job's latest line: in the footer, in place of the one before, or on stderr. */
function progress(ctx: ExtensionContext, status: Status, line: string): void {
	if (ctx.hasUI) status.say(ctx, "progress", line);
	else say(ctx, line);
}

/** Says that something failed and, where Pi has no UI, makes Pi's exit code say so too. */
function fail({ session }: Shared, message: string): void {
	if (!session) return;
	say(session, message, "error");
	if (!session.hasUI) process.exitCode = 1;
}
