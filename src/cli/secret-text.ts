/** What may be a signing secret, in the environment and in a file. */

/** As many as 24 random bytes have in base64, which is what earlier versions made. Shorter ones can be guessed. */
const TEXT = /^[!-+\--~]{32,200}$/;

export const SECRET_ALLOWED = "32 to 200 characters without spaces and commas, such as `openssl rand -hex 32` prints";

export function isSecretText(text: string): boolean {
  return TEXT.test(text);
}
