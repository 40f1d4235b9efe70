/**
 * Student: the virtual model `machine/student`, and the way there and back to the model that the user works with.
 *
 * Which of Pi's models a project's student is stands in `students.json` in Machine's folder, which Python writes. It is read
 * at each request: a release, or its rollback, holds from the next one on. An older Pi has no virtual models; Python then
 * has it set the model itself.
 *
 * What the user worked with is in the session, so that each session knows its own: in an entry of ours right before the
 * change of model, or, where the student was chosen by hand, in Pi's own entries.
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import { coded, NO_MODEL, REFUSED } from "./errors.ts";
import { isLoan } from "./loan.ts";
import { type Model, nameOf, usableModel } from "./model.ts";
import { machineHome } from "./python.ts";

type Level = ReturnType<ExtensionAPI["getThinkingLevel"]>;

/** A model, `provider/id`, and the level at which it thinks, where that is known. */
interface Chosen {
	model: string;
	level: Level | null;
}

/** What was chosen before a model; `student` names that model where `/machine student` set it. */
interface Before extends Chosen {
	student?: string;
}

export interface Choice {
	chosen: Chosen;
	/** What it takes the place of, to be remembered; null: nothing. */
	before: Chosen | null;
}

interface StudentsFile {
	version: number;
	projects: Record<string, { model: string }>;
}

const PROVIDER = "machine";
const ID = "student";
const STUDENT = nameOf({ provider: PROVIDER, id: ID });
const ENTRY = "machine.work";
const LEVELS: Level[] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/** For a session that begins with the student: what this Pi worked with before. It outlives `/new`, as the process does. */
const remembered = ((globalThis as { [key: symbol]: { before?: Chosen } })[Symbol.for("pi-machine.work")] ??= {});

export class Student {
	private readonly pi: ExtensionAPI;
	private readonly reloadProviders: () => void;
	/** Whether Pi has virtual models (1.6). */
	private readonly follows: boolean;
	private stamp = providersStamp();

	constructor(pi: ExtensionAPI, reloadProviders: () => void) {
		this.pi = pi;
		this.reloadProviders = reloadProviders;
		this.follows = typeof pi.registerVirtualModel === "function";
		if (!this.follows) return;
		pi.registerVirtualModel({
			provider: PROVIDER,
			id: ID,
			name: "Machine's student",
			thinkingLevels: LEVELS,
			route: ({ thinkingLevel }, ctx) => ({ model: this.served(ctx), thinkingLevel }),
		});
	}

	/** What Pi is set to, and what it was set to before that. */
	now(ctx: ExtensionContext) {
		const name = ctx.model && nameOf(ctx.model);
		const before = name ? (beforeIn(ctx.sessionManager.getBranch(), name) ?? remembered.before) : undefined;
		return {
			now: name ? { model: name, level: this.pi.getThinkingLevel() } : null,
			before: before ? { model: before.model, level: before.level } : null,
			student: this.isOn(ctx),
			follows: this.follows,
			idle: ctx.isIdle(),
		};
	}

	/** Whether the student answers here: the virtual model, or, in an older Pi, the one that is or was set for it. */
	isOn(ctx: ExtensionContext): boolean {
		const name = ctx.model && nameOf(ctx.model);
		if (!name || this.follows) return name === STUDENT;
		return beforeIn(ctx.sessionManager.getBranch(), name)?.student === name || isServed(ctx.cwd, name);
	}

	/** Sets a model and its thinking level. Throws, and nothing has moved, where Pi does not know it or has no key for it. */
	async choose(ctx: ExtensionContext, { chosen, before }: Choice): Promise<void> {
		if (!ctx.isIdle()) throw coded(REFUSED, "the agent is still working");
		const model = usableModel(ctx, chosen.model);
		if (before) {
			remembered.before = before;
			this.pi.appendEntry<Before>(ENTRY, { ...before, student: chosen.model });
		}
		if (!(await this.pi.setModel(model))) throw coded(NO_MODEL, `Pi has no key for ${chosen.model}`);
		if (chosen.level) this.pi.setThinkingLevel(chosen.level);
	}

	/** The model that stands for the student now. Throws, in one line, where none can answer: another is never taken. */
	private served(ctx: ExtensionContext): Model {
		const stamp = providersStamp();
		if (stamp !== this.stamp) this.reloadProviders(); // another process registered a model, or the engine moved
		this.stamp = stamp;
		try {
			return usableModel(ctx, servedIn(ctx.cwd));
		} catch (error) {
			throw new Error(`${STUDENT} cannot answer: ${(error as Error).message}. Next: /machine student`);
		}
	}
}

/** The name of the model that is the student of the project of `cwd`. */
function servedIn(cwd: string): string {
	const path = join(machineHome(), "students.json");
	const root = rootOf(cwd);
	const { version, projects } = existsSync(path) ? read(path) : { version: 1, projects: {} };
	if (version !== 1) throw new Error(`${path} is of version ${version}, this Machine reads 1`);
	const model = Object.hasOwn(projects, root) ? projects[root]?.model : undefined;
	if (typeof model !== "string") throw new Error(`${root} has no student yet`);
	return model;
}

function isServed(cwd: string, name: string): boolean {
	try {
		return servedIn(cwd) === name;
	} catch {
		return false; // no student, or a file that the next command speaks of
	}
}

function read(path: string): StudentsFile {
	try {
		const file = JSON.parse(readFileSync(path, "utf8")) as StudentsFile;
		if (typeof file?.projects === "object" && file.projects) return file;
	} catch {}
	throw new Error(`${path} cannot be read`);
}

/** The project of a folder, by the rule of `machine.store.project`: the git work tree that it lies in, else itself. */
function rootOf(cwd: string): string {
	const here = realpathSync(cwd);
	for (let folder = here; ; folder = dirname(folder)) {
		if (existsSync(join(folder, ".git")) && folder !== homedir()) return folder;
		if (folder === dirname(folder)) return here;
	}
}

/** Changes when the providers file does. */
function providersStamp(): string {
	const { mtimeMs, size } = statSync(join(machineHome(), "providers.json"), { throwIfNoEntry: false }) ?? {};
	return `${mtimeMs} ${size}`;
}

/** What was chosen on a branch before the model of now, by whoever chose it; a model on loan was nobody's choice. */
function beforeIn(branch: SessionEntry[], now: string): Before | undefined {
	let end = branch.length; // where the model of now came in
	for (let i = branch.length - 1; i >= 0; i--) {
		const entry = branch[i];
		if (entry?.type === "custom" && entry.customType === ENTRY) return entry.data as Before;
		if (entry?.type !== "model_change" || isLoan(branch[i - 1])) continue;
		const model = nameOf({ provider: entry.provider, id: entry.modelId });
		if (model !== now) return { model, level: levelAt(branch.slice(0, end)) };
		end = i;
	}
	return undefined;
}

function levelAt(branch: SessionEntry[]): Level | null {
	const change = branch.findLast((entry) => entry.type === "thinking_level_change");
	return change?.type === "thinking_level_change" ? (change.thinkingLevel as Level) : null;
}
