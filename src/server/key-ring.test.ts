import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { jobToken, readJobToken } from "./attempt-credentials.ts";
import { fingerprint, KeyRing, type Secret } from "./key-ring.ts";

const JOB = "job_01m7gekg9zevv9a6xvvwmt1v8g";
const OLD: Secret = { text: "old ".repeat(10), signsFrom: null, until: null };
const NEW: Secret = { text: "new ".repeat(10), signsFrom: 100, until: null };

function ringAt(...secrets: Secret[]) {
  const time = { now: 0 };
  return { time, ring: new KeyRing(secrets, () => time.now) };
}

describe("a ring of keys", () => {
  it("accepts what it signed, and nothing that was changed or signed with another secret", () => {
    const { ring } = ringAt(OLD);
    const signed = ring.sign("text");
    expect(signed).toMatch(/^[0-9a-f]{8}_[A-Za-z0-9_-]{43}$/);
    expect(ring.check("text", signed)).toBe("current");
    const other = ringAt(NEW).ring.sign("text");
    const wrongId = `${other.slice(0, 8)}${signed.slice(8)}`;
    for (const bad of [other, wrongId, `${signed}x`, signed.slice(9), signed.slice(1), "", "x"]) {
      expect(ring.check("text", bad)).toBeNull();
    }
    expect(ring.check("other text", signed)).toBeNull();
  });

  it("changes the secret at its time, and accepts the one before until its own", () => {
    const { ring, time } = ringAt(NEW, { ...OLD, until: 200 });
    const old = ring.sign("text");
    expect(ring.current.print).toBe(fingerprint(OLD.text));
    expect(ring.check("text", old)).toBe("current");
    const early = ringAt({ ...NEW, signsFrom: null }).ring.sign("text");
    expect(ring.check("text", early)).toBe("former"); // of a server whose clock is ahead
    time.now = 100;
    expect(ring.current.print).toBe(fingerprint(NEW.text));
    expect(ring.check("text", old)).toBe("former");
    expect(ring.check("text", ring.sign("text"))).toBe("current");
    expect(ring.retiring).toHaveLength(1);
    time.now = 200;
    expect(ring.check("text", old)).toBeNull();
    expect(ring.has(fingerprint(OLD.text))).toBe(true);
  });

  it("lets a former secret go early, and not the one that signs", () => {
    const { ring, time } = ringAt(NEW, { ...OLD, until: 200 });
    const old = ring.sign("text");
    expect(ring.retiring).toEqual([]);
    time.now = 100;
    for (const id of ring.retiring) ring.retire(id);
    expect(ring.check("text", old)).toBeNull();
    expect(ring.check("text", ring.sign("text"))).toBe("current");
  });

  it("takes what an earlier version signed by the secret that is marked so alone", () => {
    const bare = (text: string) => createHmac("sha256", OLD.text).update(text).digest("base64url");
    const token = `pdj_${JOB.slice(4)}_3_${bare(`job:${JOB}:3`)}`;
    expect(readJobToken(ringAt(NEW, { ...OLD, until: 9, isUnnamed: true }).ring, token)).toEqual({
      id: JOB,
      attempt: 3,
    });
    for (const ring of [ringAt(NEW, OLD).ring, ringAt({ ...OLD, until: 0, isUnnamed: true }, NEW).ring]) {
      expect(readJobToken(ring, token)).toBeNull();
    }
  });

  it("does not refuse what only another server can check", () => {
    const { ring } = ringAt(OLD);
    const { ring: ahead } = ringAt({ ...NEW, signsFrom: null });
    const token = jobToken(ahead, JOB, 1);
    expect(readJobToken(ring, token)).toBeNull();
    ring.missing = fingerprint(NEW.text);
    expect(() => readJobToken(ring, token)).toThrow(expect.objectContaining({ code: "signing_key_missing" }));
  });
});
