/**
 * Student: the virtual model `machine/student`, and the way there and back to the model that the user works with.
 *
 * Which of Pi's models a project's student is stands in `students.json` (`students.ts`), which is read at each request: a
 * release, or its rollback, holds from the next one on. With a release on trial, each turn is drawn (`trial.ts`): the release
 * answers it, or the model that the user works with. An older Pi has no virtual models, and no trials; Python then has it set
 * the model itself.
 *
 * What the user worked with is in the session, so that each session knows its own: in an entry of ours right before the
 * change of model, or, where the student was chosen by hand, in Pi's own entries.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { ExtensionAPI, ExtensionContext, ModelRoute, ModelRouteRequest, SessionEntry } from "@earendil-works/pi-coding-agent";
import { coded, NO_MODEL, REFUSED } from "./errors.ts";
import { isLoan } from "./loan.ts";
import { type Model, nameOf, usableModel } from "./model.ts";
import { machineHome } from "./python.ts";
import { isServed, kindOfStudent, servedIn, trialIn } from "./students.ts";
import { armIn, type Drawn, holds } from "./trial.ts";

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
	private readonly isHinted: () => boolean;
	/** Whether Pi has virtual models (1.6). */
	private readonly follows: boolean;
	private stamp = providersStamp();

	/** `isHinted`: whether the run that goes on is a retry with a hint, which no trial is to be judged by. */
	constructor(pi: ExtensionAPI, reloadProviders: () => void, isHinted: () => boolean) {
		this.pi = pi;
		this.reloadProviders = reloadProviders;
		this.isHinted = isHinted;
		this.follows = typeof pi.registerVirtualModel === "function";
		if (!this.follows) return;
		pi.registerVirtualModel({
			provider: PROVIDER,
			id: ID,
			name: "Machine's student",
			thinkingLevels: LEVELS,
			route: (request: ModelRouteRequest<Drawn>, ctx) => this.route(request, ctx),
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

	/** Who answers a request now. Throws, in one line, where nobody can: a model that is not meant is never taken. */
	private route({ thinkingLevel, reason }: ModelRouteRequest<Drawn>, ctx: ExtensionContext): ModelRoute<Drawn> {
		const stamp = providersStamp();
		if (stamp !== this.stamp) this.reloadProviders(); // another process registered a model, or the engine moved
		this.stamp = stamp;
		try {
			return { thinkingLevel, ...this.answering(ctx, reason === "direct" || this.isHinted()) };
		} catch (error) {
			throw new Error(`${STUDENT} cannot answer: ${(error as Error).message}. Next: /machine student`);
		}
	}

	/** The student that is served; with a trial, as the turn is drawn, and never a failure for the trial's sake. */
	private answering(ctx: ExtensionContext, undrawn: boolean): Omit<ModelRoute<Drawn>, "thinkingLevel"> {
		const branch = ctx.sessionManager.getBranch();
		const trial = trialIn(ctx.cwd);
		const arm = armIn({ branch, session: ctx.sessionManager.getSessionId(), undrawn }, { trial, student: kindOfStudent(ctx.cwd) });
		if (arm === "served") return { model: usableModel(ctx, servedIn(ctx.cwd)) };
		if (arm === "work" || !trial) return { model: work(ctx, branch) };
		if (arm.arm === "work" || arm.unavailable) return { model: work(ctx, branch), state: arm };
		const candidate = usable(ctx, trial.model);
		if (candidate && holds(ctx, candidate)) return { model: candidate, state: arm };
		return { model: work(ctx, branch), state: { ...arm, unavailable: true } };
	}
}

function usable(ctx: ExtensionContext, name: string): Model | undefined {
	try {
		return usableModel(ctx, name);
	} catch {
		return undefined;
	}
}

/** What the user worked with before the student; the served student where that is not known, or cannot answer. */
function work(ctx: ExtensionContext, branch: SessionEntry[]): Model {
	const before = beforeIn(branch, STUDENT) ?? remembered.before;
	return (before && usable(ctx, before.model)) ?? usableModel(ctx, servedIn(ctx.cwd));
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
