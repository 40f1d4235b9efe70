/**
 * Machine for Pi. Install: `pi install <this folder>`. What the commands do is written in Python (src/machine); this side
 * registers them, keeps one Python process alive beside Pi, and answers what Python asks.
 *
 * The process is kept on `globalThis`: this factory runs again at every `/new`, `/resume`, `/fork` and `/reload`.
 */
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { isPeerGone, type Params, Peer } from "./bridge.ts";
import { COMMANDS } from "./commands.ts";
import { GONE, hostMethods, say, setStatus, UNKNOWN_METHOD } from "./host.ts";
import { registerProviders } from "./providers.ts";
import { environment, interpreters, makeEnvironment, pythonEnv, SIDECAR_ARGS, systemPython } from "./python.ts";

interface Shared {
	peer?: Peer;
	connection?: Promise<Peer>;
	calls: number;
	toldUnusable: boolean;
	serve(method: string, params: Params): Promise<unknown>;
	onCrash(reason: string): void;
}

const KEY = Symbol.for("pi-machine.sidecar");
const holder = globalThis as { [KEY]?: Shared };
const NO_PYTHON = `Machine has no Python environment yet.\nNext: /machine setup (it makes one in ${environment()})`;

export default function machine(pi: ExtensionAPI): void {
	const shared = (holder[KEY] ??= { calls: 0, toldUnusable: false, serve: async () => null, onCrash: () => {} });
	const contexts = new Map<string, ExtensionContext>(); // "session", and one for each command that is running
	const registered = new Set<string>();
	const problems = registerProviders(pi, registered);
	const methods = hostMethods(pi, () => registerProviders(pi, registered));

	const serve = async (method: string, params: Params): Promise<unknown> => {
		const ctx = contexts.get(params.ctx ?? "session");
		if (!ctx) throw Object.assign(new Error("the session was replaced"), { code: GONE });
		const answer = Object.hasOwn(methods, method) ? methods[method] : undefined;
		if (!answer) throw Object.assign(new Error(`unknown method ${method}`), { code: UNKNOWN_METHOD });
		return answer(ctx, params);
	};

	pi.on("session_start", (event, ctx) => {
		contexts.clear();
		contexts.set("session", ctx);
		shared.serve = serve;
		shared.onCrash = (reason) => {
			shared.connection = undefined;
			fail(contexts.get("session"), `Machine's Python process ended: ${reason}\nNext: the next command starts a new one`);
		};
		for (const problem of problems.splice(0)) say(ctx, problem, "warning");
		if (!ctx.hasUI) return; // headless: Python starts with the first command
		connect(shared).then(
			(peer) => peer.notify("event", { name: "session_start", reason: event.reason }),
			(error: Error) => {
				if (!shared.toldUnusable && contexts.has("session")) say(ctx, error.message, "warning");
				shared.toldUnusable = true;
			},
		);
	});

	const settled = () => shared.peer?.notify("event", { name: "agent_settled" });
	pi.on("agent_settled", settled);
	pi.on("session_tree", () => shared.peer?.notify("event", { name: "session_tree" }));
	pi.on("agent_end", (_event, ctx) => {
		setTimeout(() => contexts.get("session") === ctx && ctx.isIdle() && settled(), 100).unref(); // Pi < 0.80 has no agent_settled
	});

	pi.on("session_shutdown", async (event) => {
		contexts.clear();
		shared.peer?.notify("ctx.dead", {}); // a dialog that is open now never resolves: Python fails its calls instead
		if (event.reason !== "quit" && event.reason !== "reload") return;
		delete holder[KEY];
		await shared.peer?.stop();
	});

	for (const [name, { description, words }] of Object.entries(COMMANDS)) {
		pi.registerCommand(name, {
			description,
			getArgumentCompletions: (prefix) => {
				const fitting = words.filter((word) => word.startsWith(prefix));
				return fitting.length > 0 ? fitting.map((word) => ({ value: word, label: word })) : null;
			},
			handler: async (args, ctx) => {
				const id = `command-${++shared.calls}`;
				contexts.set(id, ctx);
				try {
					const isSetup = name === "machine" && args.trim().split(/\s/)[0] === "setup";
					if (isSetup && !(await connect(shared).catch(() => undefined))) return await setup(shared, ctx);
					const peer = await connect(shared);
					await peer.request("command", { name, args, ctx: id });
				} catch (error) {
					const crashTold = isPeerGone(error);
					if (!crashTold && contexts.has(id)) fail(ctx, (error as Error).message);
				} finally {
					contexts.delete(id);
				}
			},
		});
	}
}

/** The running Python process, or a new one. Rejects with a message for the user where no interpreter will do. */
function connect(shared: Shared): Promise<Peer> {
	if (shared.connection && shared.peer?.alive !== false) return shared.connection;
	const connection = open(shared);
	shared.connection = connection;
	connection.catch(() => {
		if (shared.connection === connection) shared.connection = undefined;
	});
	return connection;
}

async function open(shared: Shared): Promise<Peer> {
	let problem = NO_PYTHON;
	for (const python of interpreters()) {
		const peer = new Peer(python, SIDECAR_ARGS, pythonEnv(), {
			serve: (method, params) => shared.serve(method, params),
			onCrash: (reason) => shared.onCrash(reason),
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
		problem += process.env.MACHINE_PYTHON ? "\nNext: mend or unset MACHINE_PYTHON" : "\nNext: /machine setup";
	}
	shared.peer = undefined;
	throw new Error(problem);
}

/** Makes Machine's Python environment, then starts Python in it. */
async function setup(shared: Shared, ctx: ExtensionCommandContext): Promise<void> {
	const python = await systemPython();
	if (!python) return fail(ctx, "Machine needs Python 3.11 or later, with venv, and found none.\nNext: install it, then /machine setup");
	const question = `This makes a Python environment in ${environment()} and downloads Machine's packages into it.`;
	if (ctx.hasUI && !(await ctx.ui.confirm("Set up Machine?", question))) return;
	try {
		await makeEnvironment(python, (line) => (ctx.hasUI ? setStatus(ctx, line) : say(ctx, line)));
		const peer = await connect(shared);
		say(ctx, `Machine is set up in ${environment()}.\nNext: ask Pi something, then /good`);
		peer.notify("event", { name: "session_start" });
	} catch (error) {
		setStatus(ctx, null);
		fail(ctx, `The set-up failed: ${(error as Error).message}`);
	}
}

/** Says that something failed and, where Pi has no UI, makes Pi's exit code say so too. */
function fail(ctx: ExtensionContext | undefined, message: string): void {
	if (!ctx) return;
	say(ctx, message, "error");
	if (!ctx.hasUI) process.exitCode = 1;
}
