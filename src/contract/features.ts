/** The features of workers and servers beyond the worker protocol of 0.1.0, so that versions can be mixed.
 *
 *  A worker names its features in the header `Perdure-Features` of each call, and a server replies to such a call with its
 *  own. 0.1.0 ignores the header and sends none. A field that 0.1.0 does not have is sent only to a side that named the
 *  feature it belongs to, in its latest reply or in this very call: any server of a store may answer the next one. */

export const FEATURES = {
  "unknown-fields":
    "Fields that it does not know are ignored: by a server in renewals, claims, reports, notices and reads of children; by " +
    "a worker in the replies to its calls.",
} as const;

export type Feature = keyof typeof FEATURES;

/** The value of the header. */
export const OWN_FEATURES = Object.keys(FEATURES).join(", ");

/** Whether a received header names a feature. */
export function namesFeature(header: string | null | undefined, feature: Feature): boolean {
  return header?.split(",").some((name) => name.trim() === feature) ?? false;
}
