import { embed } from '../../../app.js';

export const dynamic = 'force-dynamic';

export async function GET(request) {
  return new Response(await embed(new URL(request.url).searchParams.get('photos')));
}
