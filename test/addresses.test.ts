/** Addresses as people paste them. One that is not understood is refused without showing what may be a password, and
 *  never becomes a file name. */
import { describe, expect, it } from "vitest";
import { dataAt } from "../src/cli/target/data-directory.ts";
import { databaseTarget } from "../src/cli/target/store-target.ts";
import { isPostgres, sqlitePath } from "../src/store/open.ts";

const PASSWORD = "hunter2";

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("accepted");
}

describe("an address of a database", () => {
  it.each([" postgres://u:hunter2@h/d", "\tpostgresql://u:hunter2@h/d ", "\n postgres://u:hunter2@h/d\n"])(
    "is PostgreSQL's with spaces around it: %j",
    (address) => {
      expect(isPostgres(address)).toBe(true);
      const dir = dataAt("data", "default", "/nowhere");
      const target = databaseTarget({
        db: address,
        from: "--db",
        schema: undefined,
        dir,
        namespace: "default",
        cwd: "/",
      });
      expect(target.url).toBe(address.trim());
      expect(target.shown).not.toContain(PASSWORD);
    },
  );

  it.each([
    "xyz://u:hunter2@h/d",
    " mysql://u:hunter2@h/d",
    '"postgres://u:hunter2@h/d"',
    "=postgres://u:hunter2@h/d",
    "db postgres://u:hunter2@h/d",
    " host=h password=hunter2",
  ])("in another form is refused, without showing the password: %j", (address) => {
    expect(isPostgres(address)).toBe(false);
    const message = messageOf(() => sqlitePath(address, "/nowhere"));
    expect(message).not.toContain(PASSWORD);
    expect(message).toContain("postgres://host/database");
  });

  it("a file keeps its name, including spaces in it", () => {
    expect(sqlitePath(" ./my jobs.db ", "/x")).toBe("/x/my jobs.db");
    expect(sqlitePath("sqlite:./a.db", "/x")).toBe("/x/a.db");
  });
});
