import asyncio


async def nothing():
    return None


while True:
    await nothing()
