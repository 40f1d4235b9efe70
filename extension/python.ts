/**
 * Python: which interpreter runs Machine, and how one is made where there is none.
 *
 * A project's own `.venv` is never run: the project may be somebody else's. Environments live outside the package,
 * since `pi update` wipes what git does not track there.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const SYSTEM = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const IS_FIT = "import sys, venv; print(sys.executable if sys.version_info >= (3, 11) else '')";

/** Machine's folder: `MACHINE_DATA_DIR` or `~/.machine`, as `machine.home` has it. */
export function machineHome(): string {
	const chosen = process.env.MACHINE_DATA_DIR;
	return chosen ? resolve(chosen.replace(/^~(?=$|[\\/])/, homedir())) : join(homedir(), ".machine");
}

/** The interpreters to try, best first: `MACHINE_PYTHON` alone where it is set, the package's own, Machine's own. */
export function interpreters(): string[] {
	if (process.env.MACHINE_PYTHON) return [process.env.MACHINE_PYTHON];
	return [inside(join(PACKAGE, ".venv")), inside(environment())].filter((path) => existsSync(path));
}

/** The environment that `/machine setup` makes. */
export function environment(): string {
	return join(machineHome(), "venv");
}

/** The sidecar's arguments: `-P` keeps the project's folder, where Pi runs, out of Python's import path. */
export const SIDECAR_ARGS = ["-P", "-m", "machine.sidecar"];

/** The sidecar's environment: code always comes from this package, whatever the interpreter has installed. */
export function pythonEnv(): NodeJS.ProcessEnv {
	const { PYTHONHOME: _home, PYTHONSTARTUP: _startup, ...rest } = process.env;
	return { ...rest, PYTHONPATH: join(PACKAGE, "src"), PYTHONUTF8: "1", PYTHONUNBUFFERED: "1" };
}

/** A Python of the system that can make an environment (>= 3.11, with `venv`), or undefined. */
export async function systemPython(): Promise<string | undefined> {
	const versioned = process.platform === "win32" ? ["py", ...SYSTEM] : SYSTEM;
	for (const name of versioned) {
		try {
			const { stdout } = await promisify(execFile)(name, ["-I", "-c", IS_FIT], { timeout: 10_000, windowsHide: true });
			if (stdout.trim()) return stdout.trim();
		} catch {} // not there, or it cannot run: the next name may
	}
	return undefined;
}

/** Runs the bootstrap script, line by line to `onLine`; rejects with its last lines if it fails. */
export function makeEnvironment(python: string, onLine: (line: string) => void): Promise<void> {
	const script = join(PACKAGE, "src", "machine", "bootstrap.py");
	const child = spawn(python, [script, "--venv", environment()], {
		stdio: ["ignore", "pipe", "pipe"],
		windowsHide: true,
		env: { ...process.env, PYTHONUTF8: "1", PYTHONUNBUFFERED: "1" },
	});
	let tail: string[] = [];
	const read = (chunk: Buffer) => {
		const lines = chunk.toString("utf8").split(/[\r\n]+/).filter((line) => line.trim());
		tail = [...tail, ...lines].slice(-5);
		for (const line of lines) onLine(line.trim());
	};
	child.stdout.on("data", read);
	child.stderr.on("data", read);
	return new Promise((done, fail) => {
		child.once("error", fail);
		child.once("close", (code) => (code === 0 ? done() : fail(new Error(tail.join("\n") || `exit ${code}`))));
	});
}

function inside(venv: string): string {
	return process.platform === "win32" ? join(venv, "Scripts", "python.exe") : join(venv, "bin", "python");
}
