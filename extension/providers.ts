/**
 * Providers: the models that `/tinker` gave to Pi, out of `providers.json` in Machine's folder.
 *
 * Python writes the file; it is read synchronously while Pi loads extensions, because a provider that is registered later is
 * unknown when a resumed session looks for its model. The file names keys (`$NAME`, `!command`), it never holds one.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ExtensionAPI, ProviderConfig } from "@earendil-works/pi-coding-agent";
import { machineHome } from "./python.ts";

interface ProvidersFile {
	version: number;
	providers: { name: string; config: ProviderConfig }[];
}

/** Makes Pi's list of providers equal to the file's. Returns what is wrong with the file, empty if nothing is. */
export function registerProviders(pi: ExtensionAPI, registered: Set<string>): string[] {
	const path = join(machineHome(), "providers.json");
	const problems: string[] = [];
	let providers: ProvidersFile["providers"] = [];
	try {
		if (existsSync(path)) providers = read(readFileSync(path, "utf8"));
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

function read(json: string): ProvidersFile["providers"] {
	const { version, providers } = JSON.parse(json) as ProvidersFile;
	if (version !== 1) throw new Error(`version ${version} is not one that this Machine reads (1)`);
	const sound = Array.isArray(providers) && providers.every((p) => typeof p?.name === "string" && p.config !== null && typeof p.config === "object");
	if (!sound) throw new Error("no list of {name, config}");
	return providers;
}
