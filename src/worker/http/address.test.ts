import { BlockList, isIPv4 } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { checkAllow, isBlocked } from "./address.ts";

describe("without a list of allowed ones", () => {
  it.each([
    ..."0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1".split(" "),
    ..."127.255.255.254 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1".split(" "),
    ..."192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1".split(" "),
    ..."239.255.255.255 240.0.0.1 255.255.255.255".split(" "),
    ..."::1 :: ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:a9fe:a9fe 0:0:0:0:0:ffff:0a00:0001 ::127.0.0.1".split(" "),
    ..."64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b:1::a00:1 ::ffff:0:7f00:1".split(" "),
    ..."2002:7f00:1:: 2002:a9fe:a9fe::1 2002:c0a8:1::5 2001:0:4136:e378:8000:63bf:3fff:fdd2".split(" "),
    ..."fc00::1 fd00:ec2::254 fdff:ffff::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1".split(" "),
    ..."2001:db8::1 3fff::1 100::1 5f00::1 4000::1 FE80::ABCD".split(" "),
  ])("%s is blocked", (address) => expect(isBlocked(address, [])).toBe(true));

  it.each([
    ..."1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255".split(" "),
    ..."128.0.0.1 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255".split(" "),
    ..."192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 168.63.129.17".split(" "),
    ..."2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450:4001:81b::200e 2001:200::1".split(" "),
    ..."::ffff:8.8.8.8 ::ffff:808:808 64:ff9b::808:808 2002:808:808::1".split(" "),
  ])("%s is not", (address) => expect(isBlocked(address, [])).toBe(false));

  it.each(["", "localhost", "127.1", "0x7f.1", "2130706433", "1.2.3.4.5", "[::1]", "::1::", "%eth0", "8.8.8.8/0"])(
    "%j is blocked: it is not an address",
    (text) => expect(isBlocked(text, [])).toBe(true),
  );
});

describe("a list of allowed ones", () => {
  it.each<[string, string[], boolean]>([
    ["127.0.0.1", ["127.0.0.1"], false],
    ["127.0.0.2", ["127.0.0.1"], true],
    ["::1", ["127.0.0.1"], true],
    ["::1", ["::1"], false],
    ["0:0:0:0:0:0:0:1", ["::1"], false],
    ["::ffff:127.0.0.1", ["127.0.0.1"], false],
    ["::ffff:7f00:2", ["127.0.0.1"], true],
    ["127.0.0.1", ["::ffff:127.0.0.0/104"], false],
    ["10.9.8.7", ["10.0.0.0/8"], false],
    ["10.9.8.7", ["192.168.0.0/16", "10.9.0.0/16"], false],
    ["11.0.0.1", ["10.0.0.0/8"], false], // public
    ["192.168.1.1", ["10.0.0.0/8"], true],
    ["169.254.169.254", ["0.0.0.0/0"], false],
    ["::1", ["0.0.0.0/0"], true],
    ["fd12::1", ["fd00::/8"], false],
    ["64:ff9b::a00:1", ["10.0.0.0/8"], true], // the way around it was not allowed
    ["64:ff9b::a00:1", ["64:ff9b::/96"], false],
    ["2002:a00:1::", ["10.0.0.0/8"], true],
    ["169.254.169.254", ["private"], false],
    ["::1", ["private"], false],
    ["10.0.0.1", ["10.0.0.0/33", "10.0.0", "10.0.0.1/", "nonsense", ""], true],
  ])("%s under %j: blocked %j", (address, allow, expected) => expect(isBlocked(address, allow)).toBe(expected));

  it("is checked beforehand", () => {
    const good = ["127.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "private"];
    expect(checkAllow(good, "allow")).toEqual(good);
    const bad = ["10.0.0.0/33", "::1/129", "localhost", "10.0.0", "", "fe80::1%eth0", "Private", 7, null];
    for (const entry of bad) {
      expect(() => checkAllow(["::1", entry], "allow")).toThrow(expect.objectContaining({ path: "allow[1]" }));
    }
    expect(() => checkAllow("private", "allow")).toThrow(ConfigError);
  });
});

const v4 = fc.oneof(
  fc.ipV4(),
  fc
    .tuple(fc.constantFrom("10.0", "127.0", "169.254", "192.168", "100.64"), fc.nat(255), fc.nat(255))
    .map((p) => p.join(".")),
);

/** All the ways to write one IPv4 address inside of IPv6. */
function mappedForms(address: string): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
  const [high, low] = [(a * 256 + b).toString(16), (c * 256 + d).toString(16)];
  const padded = `${high.padStart(4, "0")}:${low.padStart(4, "0")}`;
  const heads = ["::ffff:", "::FFFF:", "0:0:0:0:0:ffff:", "0000:0000:0000:0000:0000:ffff:", "0::ffff:", "::0:0:ffff:"];
  return heads.flatMap((head) => [address, `${high}:${low}`, padded, padded.toUpperCase()].map((tail) => head + tail));
}

describe("any IPv4 address", () => {
  it("is judged alike in all forms that map it into IPv6, with and without a list", () => {
    const allow = fc.constantFrom([], ["10.0.0.0/8"], ["127.0.0.1"], ["private"], ["::/0"]);
    fc.assert(
      fc.property(v4, allow, (address, list) => {
        const plain = isBlocked(address, list);
        for (const form of mappedForms(address)) expect([form, isBlocked(form, list)]).toEqual([form, plain]);
      }),
    );
  });

  it("is blocked behind NAT64 and 6to4 if it is blocked itself", () => {
    fc.assert(
      fc.property(v4, (address) => {
        const hex = (mappedForms(address)[1] as string).slice("::ffff:".length);
        const plain = isBlocked(address, []);
        for (const form of [`64:ff9b::${address}`, `64:ff9b::${hex}`, `2002:${hex}::`, `2002:${hex}:1::1`]) {
          expect([form, isBlocked(form, [])]).toEqual([form, plain]);
        }
      }),
    );
  });
});

describe("ranges", () => {
  it("hold what Node's own BlockList says they hold", () => {
    // From what is blocked all the same, so that only the list decides.
    const v6 = fc
      .ipV6()
      .map((text) => `fd00:${text.includes("::") || text.includes(".") ? "1::2" : text.slice(text.indexOf(":") + 1)}`);
    fc.assert(
      fc.property(fc.oneof(v4, v6), fc.oneof(v4, v6), fc.nat(128), (address, base, bits) => {
        const [family, prefix] = isIPv4(base) ? (["ipv4", bits % 33] as const) : (["ipv6", bits] as const);
        const list = new BlockList();
        list.addSubnet(base, prefix, family);
        const isHeld = isIPv4(address) === isIPv4(base) && list.check(address, family);
        expect(isBlocked(address, [`${base}/${prefix}`])).toBe(isHeld ? false : isBlocked(address, []));
      }),
    );
  });
});
