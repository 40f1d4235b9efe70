/**
 * Host: what Python may ask of Pi. One entry a method; each answers for the context that the call names.
 *
 * Whatever Pi older than 1.6 may lack is looked for before it is used.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Params } from "./bridge.ts";
import { complete, type Question } from "./model.ts";
import type { Retry, Wanted } from "./retry.ts";
import type { Choice, Student } from "./student.ts";

export type Level = "info" | "warning" | "error";
type Method = (ctx: ExtensionContext, params: Params) => unknown;
type SessionManager = ExtensionContext["sessionManager"];

const KEY = "machine";
const version = piVersion();

/** One session's line in Pi's footer: a long job's latest, while there is one, else what Python says of the project. */
export class Status {
	private readonly said: { footer?: string; progress?: string } = {};
	private shown: string | undefined | null = null; // of what the session before this one showed, nothing is known

	say(ctx: ExtensionContext, part: "footer" | "progress", text: string | null | undefined): void {
		this.said[part] = text || undefined;
		const line = this.said.progress ?? this.said.footer;
		if (line !== this.shown) ctx.ui.setStatus(KEY, line);
		this.shown = line;
	}
}

/** What one session has for its methods. */
export interface Session {
	status: Status;
	retry: Retry;
	student: Student;
	/** Aborted when the session is over. */
	ended: AbortSignal;
	/** Registers what the providers file holds now; returns what is wrong with it. */
	reloadProviders(): string[];
}

/** The methods by name. */
export function hostMethods(pi: ExtensionAPI, { status, retry, student, ended, reloadProviders }: Session): Record<string, Method> {
	return {
		"ui.select": (ctx, p) => ctx.ui.select(text(p.title), p.options as string[]),
		"ui.confirm": (ctx, p) => ctx.ui.confirm(text(p.title), text(p.message)),
		"ui.input": (ctx, p) => ctx.ui.input(text(p.title), text(p.placeholder)),
		"ui.editor": (ctx, p) => ctx.ui.editor(text(p.title), text(p.prefill)),
		"ui.notify": (ctx, p) => say(ctx, text(p.message), p.level as Level),
		"ui.setStatus": (ctx, p) => status.say(ctx, "progress", p.text as string | null),
		"ui.setFooter": (ctx, p) => {
			if (p.session === ctx.sessionManager.getSessionId()) status.say(ctx, "footer", p.text as string | null);
		},
		"ui.setWidget": (ctx, p) => ctx.ui.setWidget(KEY, (p.lines as string[] | null) ?? undefined),
		"report.show": (ctx, p) => {
			say(ctx, text(p.text), p.level as Level);
			if (!ctx.hasUI && p.exitCode) process.exitCode = p.exitCode as number;
		},
		"session.info": (ctx) => ({ ...sessionInfo(ctx), student: student.isOn(ctx) }),
		"session.branch": (ctx) => ctx.sessionManager.getBranch(),
		"pi.systemPrompt": (ctx) => ctx.getSystemPrompt(),
		"pi.tools": () => activeTools(pi),
		"pi.registerProviders": () => reloadProviders(),
		"model.complete": (ctx, p) => complete(ctx, p as unknown as Question, ended),
		"model.now": (ctx) => student.now(ctx),
		"model.choose": (ctx, p) => student.choose(ctx, p as unknown as Choice),
		"turn.retry": (ctx, p) => retry.answerAnew(ctx, p as unknown as Wanted),
	};
}

/** Where Pi is: the session, its leaf and last answer, the mode. */
export function sessionInfo(ctx: ExtensionContext) {
	return {
		id: ctx.sessionManager.getSessionId(),
		file: ctx.sessionManager.getSessionFile() ?? null,
		leaf: ctx.sessionManager.getLeafId(),
		answer: lastAnswer(ctx.sessionManager),
		cwd: ctx.cwd,
		mode: ctx.mode ?? null,
		hasUI: ctx.hasUI,
		idle: ctx.isIdle(),
		model: ctx.model ? { provider: ctx.model.provider, id: ctx.model.id } : null,
		piVersion: version,
	};
}

/** The schemas of the tools that the model is given now. */
export function activeTools(pi: ExtensionAPI) {
	const active = new Set(pi.getActiveTools());
	const tools = pi.getAllTools().filter((tool) => active.has(tool.name));
	return tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
}

/** Shows `message` where the user looks: Pi's chat, or stderr where Pi has no UI, so that stdout stays the model's. */
export function say(ctx: ExtensionContext, message: string, level: Level = "info"): void {
	if (!ctx.hasUI) process.stderr.write(`${message}\n`);
	else if (ctx.mode === "tui" && level === "info") ctx.ui.notify(readable(ctx, message), level);
	else ctx.ui.notify(message, level);
}

/** Pi dims what is not a warning. A report is there to be read: an empty dim span ends Pi's own, then each line is coloured. */
function readable({ ui: { theme } }: ExtensionContext, message: string): string {
	const [title = "", ...lines] = message.split("\n");
	const coloured = lines.map((line) => theme.fg(line.startsWith("Next: ") ? "accent" : "text", line));
	return [theme.fg("dim", "") + theme.bold(theme.fg("text", title)), ...coloured].join("\n");
}

function text(value: unknown): string {
	return typeof value === "string" ? value : "";
}

/** The entry of the latest assistant message after the last user message, if there is one. */
function lastAnswer(session: SessionManager): { id: string; stopReason: string } | null {
	let entry: SessionEntry | undefined = session.getLeafEntry();
	while (entry && !(entry.type === "message" && entry.message.role === "user")) {
		if (entry.type === "message" && entry.message.role === "assistant") {
			return { id: entry.id, stopReason: entry.message.stopReason };
		}
		entry = entry.parentId ? session.getEntry(entry.parentId) : undefined;
	}
	return null;
}

/** Pi's version, from the package.json above its script; null where there is none to read (an embedded Pi). */
function piVersion(): string | null {
	try {
		for (let folder = dirname(realpathSync(process.argv[1] ?? "")); folder !== dirname(folder); folder = dirname(folder)) {
			const manifest = join(folder, "package.json");
			if (!existsSync(manifest)) continue;
			const { name, version } = JSON.parse(readFileSync(manifest, "utf8")) as { name?: string; version?: string };
			if (name?.endsWith("/pi-coding-agent")) return version ?? null;
		}
	} catch {}
	return null;
}
