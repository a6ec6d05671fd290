/** The settings of the dialects; `core/dialect-settings.ts` says why they are there. */
export * from "../core/dialect-settings.ts";
