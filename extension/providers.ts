/**
 * Providers: the models of the Tinker service, out of `providers.json` in Machine's folder.
 *
 * Python writes the file; it is read synchronously while Pi loads extensions, because a provider that is registered later is
 * unknown when a resumed session looks for its model. The file names keys (`$NAME`, `!command`), it never holds one. It may
 * speak of several services by one provider's name: this Pi takes that of the service which its own environment means.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ExtensionAPI, ProviderConfig } from "@earendil-works/pi-coding-agent";
import { COMMANDS } from "./commands.ts";
import { say } from "./host.ts";
import { interpreters, machineHome, pythonEnv } from "./python.ts";

interface ProvidersFile {
	version: number;
	providers: { name: string; config: ProviderConfig }[];
}

const ENVIRONMENT = "$TINKER_API_KEY";
const HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod";
const CHAT = "/oai/api/v1";
const CATALOGUE = ["-P", "-m", "machine.tinker.catalogue"];
const REFRESH_AFTER_MS = 1500; // Pi's start comes first
const MENDS: [RegExp, string][] = [
	[/\b40[13]\b/, "check TINKER_API_KEY; /tinker doctor"],
	[/\b402\b/, "set up billing for the account of TINKER_API_KEY"],
	[/\b404\b/, "/tinker models, or /tinker list for your checkpoints"],
	[/\b429\b/, "wait a minute, then ask again"],
];

/** Makes Pi's list of providers equal to the file's. Returns what is wrong with the file, empty if nothing is. */
export function registerProviders(pi: ExtensionAPI, registered: Set<string>): string[] {
	const path = join(machineHome(), "providers.json");
	const problems: string[] = [];
	let providers: ProvidersFile["providers"] = [];
	try {
		if (existsSync(path)) providers = meant(read(readFileSync(path, "utf8")));
	} catch (error) {
		return [`Machine's models are missing: ${path}: ${(error as Error).message}\nNext: /tinker list`];
	}
	for (const name of registered) {
		if (!providers.some((provider) => provider.name === name)) pi.unregisterProvider(name);
	}
	registered.clear();
	for (const { name, config } of providers) {
		try {
			pi.registerProvider(name, config);
			registered.add(name);
		} catch (error) {
			problems.push(`Machine's provider ${name}: ${(error as Error).message}\nNext: /tinker list`);
		}
	}
	return problems;
}

let reload = () => {}; // of the session that Pi is in: a list that comes late is for that one
let asked = false;

/** While Pi runs: asks the service for its models once, and says what Pi alone sees go wrong with its models and commands. */
export function watchProviders(pi: ExtensionAPI, registered: Set<string>): void {
	let failure: { provider: string; error: string } | undefined;
	reload = () => registerProviders(pi, registered);
	pi.on("session_start", (_event, ctx) => {
		const other = otherTinker(pi);
		if (other) say(ctx, other, "warning");
		if (ctx.hasUI && !asked) refreshSoon();
		asked ||= ctx.hasUI;
	});
	pi.on("message_end", ({ message }) => {
		if (message.role !== "assistant") return;
		const failed = message.stopReason === "error" && registered.has(message.provider);
		failure = failed ? { provider: message.provider, error: message.errorMessage ?? "" } : undefined;
	});
	pi.on("agent_settled", (_event, ctx) => {
		if (!failure) return;
		const { provider, error } = failure;
		const mend = MENDS.find(([sign]) => sign.test(error))?.[1] ?? "/tinker doctor";
		say(ctx, `${provider} did not answer.\nNext: ${mend}`, "warning");
		failure = undefined;
	});
}

/** Where there may be a service, asks it for its models in a process of its own, which Pi does not wait for. */
function refreshSoon(): void {
	const [python] = interpreters();
	if (!python || !(process.env.TINKER_API_KEY || existsSync(join(machineHome(), "engine", "engine.json")))) return;
	setTimeout(() => {
		const child = spawn(python, CATALOGUE, { stdio: "ignore", windowsHide: true, detached: true, env: { ...pythonEnv(), OMP_WAIT_POLICY: "PASSIVE" } });
		child.once("error", () => {});
		child.once("exit", () => {
			try {
				reload();
			} catch {} // Pi has reloaded its extensions: they have read the file themselves
		});
		child.unref();
	}, REFRESH_AFTER_MS).unref();
}

/** What to do about another package that has `/tinker` too: Pi gives both a number, and neither answers to the plain name. */
function otherTinker(pi: ExtensionAPI): string | undefined {
	const all = pi.getCommands?.().filter(({ name, source }) => source === "extension" && /^tinker(:\d+)?$/.test(name)) ?? [];
	const mine = all.find(({ description }) => description === COMMANDS.tinker?.description);
	const other = all.find((command) => command !== mine);
	if (!mine || !other) return undefined;
	const { source, origin, path } = other.sourceInfo ?? {}; // Pi 0.73 may not say
	const [name, mend] = origin === "package" ? [source, `pi remove ${source}`] : [path ?? "Another extension", `remove ${path ?? "it"}`];
	return `${name} has a /tinker too: Machine's is /${mine.name} until that is gone.\nNext: ${mend}`;
}

/**
 * Of the providers of one name, that of the service which this environment means, as `machine.tinker.provider` has it. With
 * no key, those that need it stay, so that Pi can say that it is missing; with one, it is sent nowhere but where it belongs.
 */
function meant(providers: ProvidersFile["providers"]): ProvidersFile["providers"] {
	const { TINKER_API_KEY: key, TINKER_BASE_URL: url } = process.env;
	const here = (url || HOSTED).replace(/\/+$/, "") + CHAT;
	const fits = ({ apiKey, baseUrl }: ProviderConfig) => (key ? apiKey === ENVIRONMENT && baseUrl === here : apiKey !== ENVIRONMENT);
	const names = [...new Set(providers.map(({ name }) => name))];
	const ofName = (name: string) => providers.filter((provider) => provider.name === name);
	return names.flatMap((name) => ofName(name).find(({ config }) => fits(config)) ?? (key ? [] : ofName(name).slice(0, 1)));
}

function read(json: string): ProvidersFile["providers"] {
	const { version, providers } = JSON.parse(json) as ProvidersFile;
	if (version !== 1) throw new Error(`version ${version} is not one that this Machine reads (1)`);
	const sound = Array.isArray(providers) && providers.every((p) => typeof p?.name === "string" && p.config !== null && typeof p.config === "object");
	if (!sound) throw new Error("no list of {name, config}");
	return providers;
}
