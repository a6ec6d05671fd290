/** Addresses that a job must not reach: those of this machine, of private networks, and reserved ones. Works on resolved
 *  addresses only, and blocks by default: what it cannot parse, and IPv6 outside of the global range.
 *  Not promised: that an address is harmless. A public address may belong to your own network; use a firewall for that. */
import { isIP } from "node:net";
import { asList } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";

/** In a list of allowed addresses: all addresses. */
const EVERYTHING = "private";

interface ParsedAddress {
  readonly family: 4 | 6;
  readonly bits: bigint;
}
interface AddressRange extends ParsedAddress {
  readonly prefix: number;
}

const BLOCKED_V4 = ranges(
  "0.0.0.0/8", // "this network"; 0.0.0.0 reaches this machine
  "10.0.0.0/8", // private
  "100.64.0.0/10", // behind a carrier's NAT; a cloud has its metadata here
  "127.0.0.0/8", // this machine
  "168.63.129.16", // public by its number, but inside of Azure its host agent
  "169.254.0.0/16", // link-local; the metadata of most clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments; a cloud has its metadata here
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // relays of 6to4
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks of networks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and 255.255.255.255 to all
);
/** All other IPv6 is loopback, unspecified, ULA (fc00::/7), link-local (fe80::/10), multicast (ff00::/8), translated or
 *  unassigned. */
const GLOBAL_V6 = range("2000::/3");
const BLOCKED_V6 = ranges(
  "2001::/23", // protocol assignments, Teredo among them
  "2001:db8::/32", // documentation
  "3fff::/20", // documentation
);
/** IPv4 addresses inside of IPv6: in the last bits or, for 6to4, 80 bits before. */
const MAPPED: AddressRange = { family: 6, bits: 0xffff_0000_0000n, prefix: 96 }; // as text it would be IPv4: see below
const NAT64 = range("64:ff9b::/96");
const SIX_TO_FOUR = range("2002::/16");

/** `allow` has addresses and ranges ("127.0.0.1", "10.0.0.0/8", "::1"), or "private" for everything. An invalid entry allows
 *  nothing; `checkAllow` refuses it beforehand. */
export function isBlocked(address: string, allow: readonly string[]): boolean {
  if (allow.includes(EVERYTHING)) return false;
  const given = parse(address);
  if (given === null) return true;
  // A mapped address is treated as its IPv4 address, to which a socket connects.
  const meant = holds(MAPPED, given) ? v4Within(given, 0) : given;
  if (allow.some((entry) => isWithin(entry, meant))) return false;
  return isReserved(meant);
}

/** Checks the operator's list at the start of a worker. */
export function checkAllow(value: unknown, path: string): readonly string[] {
  const entry = (given: unknown, at: string): string => {
    if (typeof given === "string" && (given === EVERYTHING || parseRange(given) !== null)) return given;
    const allowed = `an address, a range like "10.0.0.0/8" or "fd00::/8", or "${EVERYTHING}"`;
    throw new ConfigError({ path: at, given, allowed });
  };
  return asList(value, path, entry, 1_000);
}

function isReserved(address: ParsedAddress): boolean {
  if (address.family === 4) return BLOCKED_V4.some((each) => holds(each, address));
  // Through a gateway these reach the IPv4 address inside. Allowing the IPv4 address does not allow these forms of it.
  if (holds(NAT64, address)) return isReserved(v4Within(address, 0));
  if (holds(SIX_TO_FOUR, address)) return isReserved(v4Within(address, 80));
  return !holds(GLOBAL_V6, address) || BLOCKED_V6.some((each) => holds(each, address));
}

function v4Within({ bits }: ParsedAddress, bitsAfter: number): ParsedAddress {
  return { family: 4, bits: (bits >> BigInt(bitsAfter)) & 0xffff_ffffn };
}

function isWithin(entry: string, address: ParsedAddress): boolean {
  const allowed = parseRange(entry);
  return allowed !== null && holds(allowed, address);
}

function holds({ family, bits, prefix }: AddressRange, address: ParsedAddress): boolean {
  const hostBits = BigInt((family === 4 ? 32 : 128) - prefix);
  return family === address.family && bits >> hostBits === address.bits >> hostBits;
}

function ranges(...texts: string[]): AddressRange[] {
  return texts.map(range);
}

function range(text: string): AddressRange {
  const parsed = parseRange(text);
  if (parsed === null) throw new Error(`not a range: ${text}`);
  return parsed;
}

/** A single address is a range of one. */
function parseRange(text: string): AddressRange | null {
  const [, base = "", length] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parse(base);
  if (address === null) return null;
  const most = address.family === 4 ? 32 : 128;
  const prefix = length === undefined ? most : Number(length);
  if (prefix > most) return null;
  // A mapped range ("::ffff:10.0.0.0/104") is compared as its IPv4 range.
  const isMapped = address.family === 6 && prefix >= 96 && address.bits >> 32n === 0xffffn;
  return isMapped ? { ...v4Within(address, 0), prefix: prefix - 96 } : { ...address, prefix };
}

function parse(text: string): ParsedAddress | null {
  // A zone ("fe80::1%eth0") is a network interface, not part of the address.
  const [plain = ""] = text.split("%", 1);
  const family = isIP(plain);
  if (family === 4) return { family, bits: v4Bits(plain) };
  return family === 6 ? { family, bits: v6Bits(plain) } : null;
}

function v4Bits(text: string): bigint {
  return text.split(".").reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);
}

/** `isIP` has validated it; only shortened forms have to be expanded. */
function v6Bits(text: string): bigint {
  const groups = text.replace(/[\d.]+\.\d+$/, (quad) => {
    const bits = v4Bits(quad);
    return `${(bits >> 16n).toString(16)}:${(bits & 0xffffn).toString(16)}`;
  });
  const [head = [], tail = []] = groups.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const zeros = new Array<string>(8 - head.length - tail.length).fill("0");
  return [...head, ...zeros, ...tail].reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
}
